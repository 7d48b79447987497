"""The command that makes a table's records, from what the records say."""

import shlex
from collections.abc import Sequence

from dualtta.report.benches import Placed
from dualtta.report.context import PAPER_MODELS
from dualtta.report.gather import Setting
from dualtta.report.labels import follows_own, has_own

SEEDS = (2024, 2025, 2026)  # what `dualtta run` takes unless told


def command(experiment: str, placed: Sequence[Placed]) -> str:
    """`dualtta run` with the options that differ from its defaults, once for each protocol that the rows follow.

    Where the data lies, and which FILE source models started from, is the reader's to say.
    """
    settings = [one.setting for one in placed]
    own = [setting for setting in settings if follows_own(setting)]
    others = [setting for setting in settings if not follows_own(setting)]
    if own and any(has_own(setting) for setting in others):
        return f"{_command(experiment, others)} && {_command(experiment, own)}"
    return _command(experiment, settings)


def _command(experiment: str, settings: Sequence[Setting]) -> str:
    words = ["dualtta", "run", experiment, "--root", "DATA"]
    seeds = sorted({seed for setting in settings for seed in setting.seeds})
    if tuple(seeds) != SEEDS:
        words += ["--seeds", ",".join(map(str, seeds))]
    if any(follows_own(setting) for setting in settings):
        words += ["--protocol", "own"]
    for option, key, usual in (("--limit", "limit", None), ("--repeats", "repeats", 1), ("--batch-size", "batch_size", 64)):
        chosen = {setting.stream.get(key) for setting in settings} - {None, usual}
        words += [option, str(chosen.pop())] if len(chosen) == 1 else []
    models = {setting.model for setting in settings if setting.model not in PAPER_MODELS.get(setting.dataset, (setting.model,))}
    words += ["--backbone", models.pop()] if len(models) == 1 else []
    weights = {setting.cell["model"].get("weights") for setting in settings} - {None, "pretrained"}
    weights |= {"FILE" for setting in settings if str((setting.source or {}).get("weights")).startswith("sha256:")}
    words += ["--weights", str(weights.pop())] if len(weights) == 1 else []
    return shlex.join(words)
