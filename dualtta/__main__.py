"""`python -m dualtta` is `dualtta`."""

import sys

from dualtta.cli import main

sys.exit(main())
