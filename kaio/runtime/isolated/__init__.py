"""The isolated device: kernels of a GPU in a worker process, on memory that this process owns."""
