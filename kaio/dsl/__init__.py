"""What a kernel may say, and (in `compiler`) how it is translated."""
