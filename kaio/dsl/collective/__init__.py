"""What all threads of a warp or of a block compute together: folds, scans, broadcasts.

`records` are what kernels call. What they mean is written in the kernel language, in `folding`, once for both devices,
over a few `steps` that the devices spell differently.
"""
