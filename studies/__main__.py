"""`python -m studies`: the command line of dualtta with the studies' method, experiments and commands."""

import sys
from pathlib import Path

# worker processes inherit sys.path and find the method by its entry point here; they do not import this module
sys.path.append(str(Path(__file__).with_name("plugin")))

from studies.commands import main

if not {"-h", "--help"} & set(sys.argv):  # help needs no torch
    from studies.registration import register

    register()

if __name__ == "__main__":
    sys.exit(main())
