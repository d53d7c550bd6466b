"""What a kernel may say, and (in `compiler`) how it is translated."""

from kaio.dsl import atomic, index, memory, numeric, operators, sync

__all__ = ["atomic", "index", "memory", "numeric", "operators", "sync"]
