"""The CUDA device: a GPU through the CUDA driver. Only `driver.py` imports the bindings."""
