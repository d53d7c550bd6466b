"""What a kernel may say, and (in `compiler`) how it is translated."""

from kaio.dsl import atomic, casts, complex_calls, index, memory, numeric, printing, sync, vector_functions

__all__ = [
    "atomic", "casts", "complex_calls", "index", "memory", "numeric", "printing", "sync", "vector_functions",
]  # fmt: skip
