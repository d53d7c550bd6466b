"""What a kernel may say, and (in `compiler`) how it is translated."""

from kaio.dsl import atomic, casts, index, memory, numeric, sync

__all__ = ["atomic", "casts", "index", "memory", "numeric", "sync"]
