"""Typed IR to LLVM: the walk, and a file for each noun that it is made of. It asks a `Target` for what differs."""
