"""The command that makes a table's records, by the records' settings."""

import shlex
from collections.abc import Sequence
from typing import Any

from dualtta.paper.placing import MODELS
from dualtta.report.labels import follows_own, has_own

SEEDS = (2024, 2025, 2026)  # the default of `dualtta run`


def command(experiment: str, placed: Any) -> str:
    """`dualtta run` with the options that differ from its defaults, once for each protocol that the rows follow.

    DATA and FILE are left to the reader: the folder of the data, and the weights that source models started from.
    """
    firsts = list(placed.drop_duplicates("setting").itertuples())
    seeds = {setting: set(of) for setting, of in placed.groupby("setting")["seed"]}
    own = [cell for cell in firsts if follows_own(cell)]
    others = [cell for cell in firsts if not follows_own(cell)]
    if own and any(has_own(cell) for cell in others):
        return f"{_command(experiment, others, seeds)} && {_command(experiment, own, seeds)}"
    return _command(experiment, firsts, seeds)


def _command(experiment: str, cells: Sequence[Any], seeds_of: dict[Any, set[int]]) -> str:
    words = ["dualtta", "run", experiment, "--root", "DATA"]
    seeds = sorted(set().union(*(seeds_of[cell.setting] for cell in cells)))
    if tuple(seeds) != SEEDS:
        words += ["--seeds", ",".join(map(str, seeds))]
    if any(follows_own(cell) for cell in cells):
        words += ["--protocol", "own"]
    for option, key, usual in (("--limit", "limit", None), ("--repeats", "repeats", 1), ("--batch-size", "batch_size", 64)):
        chosen = {cell.stream.get(key) for cell in cells} - {None, usual}
        words += [option, str(chosen.pop())] if len(chosen) == 1 else []
    models = {cell.model for cell in cells if cell.model not in MODELS.get(cell.dataset, (cell.model,))}
    words += ["--backbone", models.pop()] if len(models) == 1 else []
    weights = {cell.record.part("cell", "model", "weights") for cell in cells} - {None, "pretrained"}
    weights |= {"FILE" for cell in cells if str((cell.source or {}).get("weights")).startswith("sha256:")}
    weights |= {
        "random" for cell in cells if cell.dataset in MODELS and cell.source is not None and not cell.source.get("weights")
    }
    words += ["--weights", str(weights.pop())] if len(weights) == 1 else []
    return shlex.join(words)
