"""``python -m kaio``: see `kaio.cli`."""

import sys

from kaio.cli import main

if __name__ == "__main__":
    sys.exit(main())
