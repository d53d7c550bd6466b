"""PTX text on the CPU device: parsed, lowered to LLVM by one record per opcode, and run by the same scheduler."""
