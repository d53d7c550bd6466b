"""How a kernel is translated: `pipeline`, then one file per stage."""
