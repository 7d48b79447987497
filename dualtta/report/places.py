"""Where a setting was measured, in words: dataset, what of it, model, scenario."""

import json
from typing import Any

from dualtta.data.published import CORRUPTIONS
from dualtta.report.gather import Setting

FEW = 3  # corruptions that are named one by one


def place_key(setting: Setting) -> str:
    """All that was chosen but the method and the seed: settings that share it stand in one table."""
    cell = setting.cell
    model = {**cell["model"], "source": {**(setting.source or {}), "seed": None}}
    hash = setting.records[0].part("model", "weights_hash")
    return json.dumps([cell["dataset"]["name"], setting.choices, model, cell["scenario"], hash], sort_keys=True)


def place_name(setting: Setting) -> str:
    """One line for people: "pacs photo → sketch, resnet50, mild"."""
    which = brief(_words(setting.choices.get("corruptions")))
    origin, target = setting.source_domains, setting.target_domains
    if origin and target:
        which += [f"{'+'.join(origin)} → {'+'.join(target)}"]
    else:
        which += list(target)
    severities = setting.choices.get("severities")
    at = [f"severity {'+'.join(_words(severities))}"] if which and severities else []
    what = " ".join([setting.dataset, "+".join(which)]).strip()
    return ", ".join([what, *at, setting.model, setting.scenario, *setting.passes])


def brief(corruptions: list[str]) -> list[str]:
    """More than a few by their number, the first and the last.

    >>> brief(["fog", "snow"]), brief(["fog", "snow", "frost", "contrast"]), brief(list(CORRUPTIONS))
    (['fog', 'snow'], ['4 corruptions (fog to contrast)'], ['all 15 corruptions'])
    """
    if sorted(corruptions) == sorted(CORRUPTIONS):
        return [f"all {len(corruptions)} corruptions"]
    many = len(corruptions) > FEW
    return [f"{len(corruptions)} corruptions ({corruptions[0]} to {corruptions[-1]})"] if many else corruptions


def _words(values: Any) -> list[str]:
    return list(map(str, values)) if isinstance(values, list) else []
