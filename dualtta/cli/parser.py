"""The command line. A command is a function; its signature and docstring make its options, and it imports late."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta import plugins
from dualtta.cli.adapt import adapt
from dualtta.cli.compare import compare
from dualtta.cli.conformance import conformance
from dualtta.cli.data import COMMANDS as DATA
from dualtta.cli.list import list_
from dualtta.cli.pack import pack
from dualtta.cli.report import report
from dualtta.cli.results import results
from dualtta.cli.run import run
from dualtta.cli.train import train
from dualtta.cli.watch import watch

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser

Command = Callable[..., int]
Group = dict[str, Command]
COMMANDS: dict[str, Command | Group] = {
    "list": list_,
    "train": train,
    "run": run,
    "watch": watch,
    "report": report,
    "compare": compare,
    "pack": pack,
    "results": results,
    "adapt": adapt,
    "data": DATA,
    "conformance": conformance,
}
GROUPS = {"data": "Work on datasets on disk: check, prepare, corrupt."}


def main(args: list[str] | None = None, commands: Mapping[str, Command | Group] = COMMANDS, prog: str = "dualtta") -> int:
    """Run a command. Bad input is one line on stderr and exit code 2."""
    try:
        return _run(sys.argv[1:] if args is None else args, commands, prog)
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"{prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{prog}: interrupted", file=sys.stderr)
        return 130


def _run(words: list[str], commands: Mapping[str, Command | Group], prog: str) -> int:
    from jsonargparse import ArgumentError

    known = {**commands, **_plugged_in(commands, words)}
    try:
        chosen = _parser(known, prog).parse_args(words)
    except ArgumentError as error:
        raise ValueError(str(error)) from error
    command, settings = known[chosen.subcommand], chosen[chosen.subcommand]
    if isinstance(command, dict):
        command, settings = command[settings.subcommand], settings[settings.subcommand]
    assert callable(command)
    return command(**settings.as_dict())


def _plugged_in(own: Mapping[str, Any], words: list[str]) -> dict[str, Command | EntryPoint]:
    """Commands of other packages by entry point; only the one that is called is imported."""
    called = next((word for word in words if not word.startswith("-")), None)
    found = plugins.commands(own)
    return {name: plugins.load_command(entry) if name == called else entry for name, entry in found.items()}


def _parser(commands: Mapping[str, Command | Group | EntryPoint], prog: str) -> "ArgumentParser":
    from jsonargparse import ArgumentParser

    from dualtta import __version__

    parser = ArgumentParser(
        prog=prog,
        version=__version__,
        exit_on_error=False,
        description="Test-time adaptation for any image classifier: DualTTA, its baselines, and the tools to study them.",
    )
    _add_commands(parser, commands)
    return parser


def _add_commands(parser: "ArgumentParser", functions: Mapping[str, Command | Group | EntryPoint]) -> None:
    """Each function as a subcommand, a dict of functions as a group of them, an entry point as a line of the help."""
    from jsonargparse import ArgumentParser

    commands = parser.add_subcommands(title="commands", metavar="COMMAND")
    for name, function in functions.items():
        if isinstance(function, EntryPoint):
            summary = plugins.summary(function)
        else:
            summary = GROUPS[name] if isinstance(function, dict) else first_line(function)
        command = ArgumentParser(exit_on_error=False, description=summary)
        commands.add_subcommand(name, command, help=summary)
        if isinstance(function, dict):
            _add_commands(command, function)
        elif not isinstance(function, EntryPoint):
            for key, spec in inspect.signature(function).parameters.items():
                _add_argument(command, spec, _help_of(function, key))


def _add_argument(command: "ArgumentParser", spec: inspect.Parameter, help: str) -> None:
    """A flag for what defaults to False, several words for lists, an option for what has a default or is keyword-only.

    Others are positional; one of `str | None` may be left out.
    """
    option = f"--{spec.name.replace('_', '-')}"
    if spec.default is False:
        command.add_argument(option, action="store_true", help=help)
    elif isinstance(spec.default, tuple):
        command.add_argument(option, nargs="+", type=str, default=list(spec.default), help=help)
    elif spec.annotation == list[Path]:
        command.add_argument(spec.name, nargs="+", type=Path, metavar=spec.name.upper().removesuffix("S"), help=help)
    elif spec.annotation == list[str]:
        command.add_argument(option, nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=help)
    elif spec.default is not spec.empty:
        command.add_argument(option, type=spec.annotation, default=spec.default, help=help)
    elif spec.annotation == (str | None):
        command.add_argument(spec.name, nargs="?", type=str, help=help)
    elif spec.kind is spec.KEYWORD_ONLY:
        command.add_argument(option, type=spec.annotation, required=True, help=help)
    else:
        command.add_argument(spec.name, type=spec.annotation, help=help)


def _help_of(function: Command, parameter: str) -> str:
    """What the docstring's Args section says of a parameter."""
    found = re.search(rf"^ +{parameter}: (.+)$", function.__doc__ or "", re.MULTILINE)
    return found.group(1) if found else ""


def first_line(thing: Any) -> str:
    """The first line of a docstring."""
    return (thing.__doc__ or "").strip().split("\n")[0]


if __name__ == "__main__":
    sys.exit(main())
