"""The command line. Each command is a function; torch is imported inside, so that --help answers at once."""

import inspect
import json as jsonlib
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualtta.adapt_command import adapt
from dualtta.data.commands import COMMANDS as DATA
from dualtta.train_command import train

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser


def list_(json: bool = False) -> int:
    """Show the methods with their hyper-parameters, the views, the models, the datasets and the scenarios.

    Args:
        json: Print JSON instead of a table.
    """
    from dualtta.data.registry import DATASETS
    from dualtta.data.registry import settings as choices
    from dualtta.methods import METHODS, settings
    from dualtta.models.zoo import MODELS
    from dualtta.streams import SCENARIOS
    from dualtta.views import VIEWS

    methods = {name: settings(kind()) for name, kind in METHODS.items()}
    summaries = {name: _first_line(kind) for name, kind in {**METHODS, **VIEWS}.items()}
    models = {name: spec.summary for name, spec in MODELS.items()}
    datasets = {name: _first_line(kind) for name, kind in DATASETS.items()}
    scenarios = {name: what for name, (what, _) in SCENARIOS.items()}
    if json:
        views = {name: summaries[name] for name in VIEWS}
        answer = {"methods": methods, "views": views, "models": models, "datasets": datasets, "scenarios": scenarios}
        print(jsonlib.dumps(answer, indent=2))
        return 0
    fields = {name: ", ".join(f"{k}={_short(v)}" for k, v in values.items()) for name, values in methods.items()}
    _table(["method", "what it does", "settings"], [[name, summaries[name], fields[name]] for name in METHODS])
    _table(["view", "what it does"], [[name, summaries[name]] for name in VIEWS])
    _table(["model", "what it is"], [*([name, what] for name, what in models.items()), ["timm:NAME", "any model of timm"]])
    _table(["dataset", "what it is", "settings"], [[name, what, ", ".join(choices(name))] for name, what in datasets.items()])
    _table(["scenario", "what is met (join several with +)"], [[name, what] for name, what in scenarios.items()])
    return 0


def conformance(dir: Path, json: bool = False) -> int:
    """Replay golden vectors and report the worst error of each case; exits with 1 where a case is off.

    Args:
        dir: A folder with methods/cases.json and the arrays beside it, or with corruptions.npz, or with both.
        json: Print [{"case", "ok", "worst", "why"}] instead of a table.
    """
    if not dir.is_dir():
        raise ValueError(f"there is no folder {dir}")
    from rich.console import Console
    from rich.progress import track

    from dualtta.conformance import check_folder

    quiet = Console(stderr=True)
    verdicts = check_folder(dir, lambda cases: track(cases, "replaying", console=quiet, transient=True))
    if json:
        print(jsonlib.dumps(verdicts, indent=2))
    else:
        worst = [("" if v["worst"] is None else f"{v['worst']:.1e}") for v in verdicts]
        rows = [[v["case"], "ok" if v["ok"] else "OFF", w, v["why"]] for v, w in zip(verdicts, worst, strict=True)]
        _table(["case", "", "worst error", "why"], rows)
        print(f"{sum(v['ok'] for v in verdicts)} of {len(verdicts)} ok")
    return 0 if all(v["ok"] for v in verdicts) else 1


Command = Callable[..., int]
COMMANDS: dict[str, Command | dict[str, Command]] = {
    "list": list_,
    "train": train,
    "adapt": adapt,
    "data": DATA,
    "conformance": conformance,
}
GROUPS = {"data": "Work on datasets on disk."}


def main(args: list[str] | None = None) -> int:
    """Run a command. Bad input is one line on stderr and exit code 2."""
    from jsonargparse import ArgumentError

    try:
        chosen = _parser().parse_args(args)
        command, settings = COMMANDS[chosen.subcommand], chosen[chosen.subcommand]
        if isinstance(command, dict):
            command, settings = command[settings.subcommand], settings[settings.subcommand]
        return command(**settings.as_dict())
    except (ArgumentError, ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output left, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        print(f"dualtta: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dualtta: interrupted", file=sys.stderr)
        return 130


def _parser() -> "ArgumentParser":
    from jsonargparse import ArgumentParser

    from dualtta import __version__

    parser = ArgumentParser(
        prog="dualtta",
        version=__version__,
        exit_on_error=False,
        description="Test-time adaptation for any image classifier: DualTTA, its baselines, and the tools to study them.",
    )
    _add_commands(parser, COMMANDS)
    return parser


def _add_commands(parser: "ArgumentParser", functions: Mapping[str, Command | dict[str, Command]]) -> None:
    """Each function as a subcommand, a dict of functions as a group of them."""
    from jsonargparse import ArgumentParser

    commands = parser.add_subcommands(title="commands", metavar="COMMAND")
    for name, function in functions.items():
        summary = GROUPS[name] if isinstance(function, dict) else _first_line(function)
        command = ArgumentParser(exit_on_error=False, description=summary)
        commands.add_subcommand(name, command, help=summary)
        if isinstance(function, dict):
            _add_commands(command, function)
        else:
            _add_arguments(command, function)


def _add_arguments(command: "ArgumentParser", function: Command) -> None:
    """What the signature says; False by default is a flag, a tuple by default or a list takes several values."""
    for key, spec in inspect.signature(function).parameters.items():
        positional = spec.default is spec.empty and spec.kind is not spec.KEYWORD_ONLY
        how: dict[str, Any] = {"type": spec.annotation, "default": spec.default}
        if spec.default is False:
            how = {"action": "store_true"}
        elif spec.default and isinstance(spec.default, tuple):
            how = {"nargs": "+", "type": type(spec.default[0]), "default": list(spec.default)}
        elif spec.annotation == list[str]:
            how = {"nargs": "+", "action": "extend", "default": []}
        elif spec.default is spec.empty:
            how = {"type": spec.annotation} | ({} if positional else {"required": True})
        command.add_argument(key if positional else f"--{key.replace('_', '-')}", help=_help_of(function, key), **how)


def _help_of(function: Callable[..., int], parameter: str) -> str:
    """What the docstring's Args section says of a parameter."""
    found = re.search(rf"^ +{parameter}: (.+)$", function.__doc__ or "", re.MULTILINE)
    return found.group(1) if found else ""


def _first_line(kind: Any) -> str:
    return (kind.__doc__ or "").strip().split("\n")[0]


def _short(value: Any) -> str:
    return str(value["view"]) if isinstance(value, dict) else str(value)


def _table(header: list[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*header, header_style="bold", box=None)
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
