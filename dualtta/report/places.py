"""Where a setting was measured, in words: dataset, what of it, model, scenario."""

import json
from typing import Any

from dualtta.report.gather import Setting


def place_key(setting: Setting) -> str:
    """All that was chosen but the method and the seed: settings that share it stand in one table."""
    cell = setting.cell
    model = {**cell["model"], "source": {**(setting.source or {}), "seed": None}}
    hash = setting.records[0].part("model", "weights_hash")
    return json.dumps([cell["dataset"]["name"], setting.choices, model, cell["scenario"], hash], sort_keys=True)


def place_name(setting: Setting) -> str:
    """One line for people: "pacs photo → sketch, resnet50, mild"."""
    which = _words(setting.choices.get("corruptions"))
    origin, target = setting.source_domains, setting.target_domains
    if origin and target:
        which += [f"{'+'.join(origin)} → {'+'.join(target)}"]
    else:
        which += list(target)
    severities = setting.choices.get("severities")
    at = [f"severity {'+'.join(_words(severities))}"] if which and severities else []
    what = " ".join([setting.dataset, "+".join(which)]).strip()
    repeats = setting.stream.get("repeats", 1)
    passes = [f"{repeats} passes over the same images"] if repeats != 1 else []
    return ", ".join([what, *at, setting.model, setting.scenario, *passes])


def _words(values: Any) -> list[str]:
    return list(map(str, values)) if isinstance(values, list) else []
