"""What this machine spells its own way: coroutines, the scheduler of blocks and warps, proofs, native code."""
