"""The command that makes a table's records, from what the records say."""

import shlex
from collections.abc import Sequence

from dualtta.report.benches import Placed
from dualtta.report.context import PAPER_MODELS
from dualtta.report.labels import follows_own

SEEDS = (2024, 2025, 2026)  # what `dualtta run` takes unless told


def command(experiment: str, placed: Sequence[Placed]) -> str:
    """`dualtta run` with the options that differ from its defaults; where the data lies is the reader's to say."""
    settings = [one.setting for one in placed]
    words = ["dualtta", "run", experiment, "--root", "DATA"]
    seeds = sorted({seed for setting in settings for seed in setting.seeds})
    if tuple(seeds) != SEEDS:
        words += ["--seeds", ",".join(map(str, seeds))]
    if any(follows_own(setting) for setting in settings):
        words += ["--protocol", "own"]
    for option, key in (("--limit", "limit"), ("--batch-size", "batch_size")):
        chosen = {setting.stream.get(key) for setting in settings} - {None, 64 if key == "batch_size" else None}
        words += [option, str(chosen.pop())] if len(chosen) == 1 else []
    models = {setting.model for setting in settings if setting.model not in PAPER_MODELS.get(setting.dataset, (setting.model,))}
    words += ["--backbone", models.pop()] if len(models) == 1 else []
    weights = {setting.cell["model"].get("weights") for setting in settings} - {None, "pretrained"}
    words += ["--weights", str(weights.pop())] if len(weights) == 1 else []
    return shlex.join(words)
