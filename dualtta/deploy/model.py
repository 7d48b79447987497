"""The model to deploy: a name with your weights, or a folder that `dualtta train` made."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import nn

from dualtta.data.preprocess import Preprocess
from dualtta.method import Method
from dualtta.methods import METHODS, make_method
from dualtta.train import load_source
from dualtta.train.card import CARD, MODEL
from dualtta.zoo.checkpoint import file_hash
from dualtta.zoo.registry import PRETRAINED, open_model


@dataclass(frozen=True)
class Deployed:
    """A model, its preprocessing, the names of its classes where known, and an identifier of its weights."""

    model: nn.Module
    preprocess: Preprocess
    names: tuple[str, ...] | None
    origin: str


def open_deployed(name: str | None, weights: str, classes: str | None = None) -> Deployed:
    """Open a model with its weights.

    Args:
        name: A model's name; None for weights that `dualtta train` made.
        weights: A file of weights, a folder that `dualtta train` made, or "pretrained".
        classes: The number of classes, or a file with one name per line; None takes the number that the weights have.
    """
    count, names = read_classes(classes)
    path = Path(weights).expanduser()
    home = path if path.is_dir() else path.parent
    if weights != PRETRAINED and (path.is_dir() or path.name == MODEL) and (home / CARD).is_file():
        model, preprocess, card = load_source(home)
        if name not in (None, card["model"]):
            raise ValueError(f"{home} holds a {card['model']}, not a {name}: omit --model")
        known = tuple(map(str, card["classes"]))
        if count not in (None, len(known)):
            raise ValueError(f"{home} is for {len(known)} classes, not {count}")
        return Deployed(model, preprocess, names or known, card["weights"]["sha256"])
    if name is None:
        raise ValueError(f"name the model that {weights} belongs to with --model; `dualtta list` shows the names")
    if path.is_dir():
        raise ValueError(f"{path} is a folder that `dualtta train` did not make: name the file with the weights")
    model, preprocess = open_model(name, count, weights)
    return Deployed(model, preprocess, names, PRETRAINED if weights == PRETRAINED else file_hash(path))


def read_classes(given: str | None) -> tuple[int | None, tuple[str, ...] | None]:
    """The number of classes, and their names where `given` is a file."""
    if given is None:
        return None, None
    if given.isdecimal():
        return int(given), None
    path = Path(given).expanduser()
    if not path.is_file():
        raise ValueError(f"--classes takes a number or a file with one class name per line, and there is no file {path}")
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8") from error
    if len(names) < 2:
        raise ValueError(f"{path} names {len(names)} classes: it must have one per line, at least two")
    return len(names), names


def parse_method(name: str, pairs: Sequence[str]) -> Method:
    """A method with hyper-parameters written as key=value.

    >>> parse_method("dualtta", ["tau_sp=0.5", "reduction=mean", "filter_sa=false"]).filter_sa
    False
    >>> parse_method("dualtta", ["tau_sp"])
    Traceback (most recent call last):
    ...
    ValueError: a setting is written key=value, not 'tau_sp'
    """
    settings = parse_settings(pairs)
    kinds = {spec.name: spec.default for spec in fields(METHODS[name])} if name in METHODS else {}
    for key, value in settings.items():
        if isinstance(kinds.get(key), bool) and not isinstance(value, bool):
            raise ValueError(f"{name}: {key} must be true or false, not {value!r}")
    return make_method(name, **settings)


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Settings written as key=value, each value JSON, None as `dualtta list` writes it, or a word.

    >>> parse_settings(["tau_sp=0.5", "split=test", "crowd=None"])
    {'tau_sp': 0.5, 'split': 'test', 'crowd': None}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not key or not equals:
            raise ValueError(f"a setting is written key=value, not {pair!r}")
        try:
            settings[key] = json.loads(text)
        except json.JSONDecodeError:
            settings[key] = None if text == "None" else text  # a word
    return settings
