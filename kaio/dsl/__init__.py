"""What a kernel may say, and (in `compiler`) how it is translated."""

from kaio.dsl import atomic, breakpoints, casts, complex_calls, index, memory, numeric, printing, sync, vector_functions

__all__ = [
    "atomic", "breakpoints", "casts", "complex_calls", "index", "memory", "numeric", "printing", "sync",
    "vector_functions",
]  # fmt: skip
