"""What CUDA spells its own way: PTX, by libNVVM, and cubins."""
