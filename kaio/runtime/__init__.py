"""Devices, buffers, streams and completions."""
