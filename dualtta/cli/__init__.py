"""The command line."""

from dualtta.cli.parser import main as main
