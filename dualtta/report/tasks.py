"""What methods are compared on. A benchmark is a dataset on a model in a scenario; its units are tasks: one corruption, one
pair of source and target domain, or all of the dataset. Methods and settings on the same task may be compared sample by sample.

All functions take a row of a `Records` frame (of `itertuples`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dualtta.data.published import CORRUPTIONS, OFFICE_HOME, PACS, WATERBIRDS
from dualtta.records.caveats import passes

FEW = 3  # corruptions that are named one by one
SCENARIOS = ("mild", "imbalanced", "mixed", "continual")  # from easy to hard
IMAGES: dict[str, int | Mapping[str, int]] = {  # of each domain, as published
    "colored_mnist": 20_000,
    "waterbirds": WATERBIRDS.domains,
    "pacs": PACS.domains,
    "office_home": OFFICE_HOME.domains,
    "imagenet_c": 50_000,
}


def task(cell: Any) -> str:
    """Everything that was chosen but the method and the seed, and the weights."""
    chosen = cell.record.cell["cell"]
    model = {**chosen["model"], "source": {**(cell.source or {}), "seed": None}}
    return json.dumps([cell.dataset, cell.choices, model, chosen["scenario"], cell.weights_hash], sort_keys=True)


def benchmark(cell: Any) -> tuple[str, str, str, int]:
    """Dataset, model, scenario, and how often the stream holds every image."""
    return cell.dataset, cell.model, cell.scenario, int(cell.stream.get("repeats", 1))


def in_order(key: tuple[str, str, str, int]) -> tuple[Any, ...]:
    """A sort key of benchmarks: by dataset and model, scenarios from easy to hard."""
    dataset, model, scenario, repeats = key
    known = SCENARIOS.index(scenario) if scenario in SCENARIOS else len(SCENARIOS)
    return dataset, model, known, scenario, repeats


def source_domains(cell: Any) -> tuple[str, ...]:
    """The domains that the source model was trained on, where these were chosen."""
    return _words(((cell.source or {}).get("choices") or {}).get("domains"))


def target_domains(cell: Any) -> tuple[str, ...]:
    """The domains of the stream, where these were chosen."""
    return _words(cell.stream.get("domains"))


def unit(cell: Any) -> str:
    """What a task is of its benchmark: "fog", "photo → sketch"; empty where it is all of the dataset."""
    corruptions, source, target = _words(cell.choices.get("corruptions")), source_domains(cell), target_domains(cell)
    if len(corruptions) == 1:
        return corruptions[0]
    return f"{'+'.join(source)} → {'+'.join(target)}" if source and target else ""


def name(cell: Any) -> str:
    """A task in one line: "pacs photo → sketch, resnet50, mild"."""
    which = brief(list(_words(cell.choices.get("corruptions"))))
    source, target = source_domains(cell), target_domains(cell)
    which += [f"{'+'.join(source)} → {'+'.join(target)}"] if source and target else brief(list(target))
    severities = _words(cell.choices.get("severities"))
    at = [f"severity {'+'.join(severities)}"] if which and severities else []
    what = " ".join([cell.dataset, "+".join(which)]).strip()
    return ", ".join([what, *at, cell.model, cell.scenario, *passes(cell.record)])


def brief(corruptions: list[str]) -> list[str]:
    """More than a few by their number, the first and the last.

    >>> brief(["fog", "snow"]), brief(["fog", "snow", "frost", "contrast"]), brief(list(CORRUPTIONS))
    (['fog', 'snow'], ['4 corruptions (fog to contrast)'], ['all 15 corruptions'])
    """
    if sorted(corruptions) == sorted(CORRUPTIONS):
        return [f"all {len(corruptions)} corruptions"]
    many = len(corruptions) > FEW
    return [f"{len(corruptions)} corruptions ({corruptions[0]} to {corruptions[-1]})"] if many else corruptions


def published_images(dataset: str, domains: Sequence[str]) -> int | None:
    """How many images these domains of a dataset hold as published; None where that is not known.

    >>> published_images("pacs", ["photo", "sketch"]), published_images("mine", ["photo"])
    (5599, None)
    """
    each = IMAGES.get(dataset)
    if each is None:
        return None
    counts = [each if isinstance(each, int) else each.get(domain) for domain in domains]
    return None if None in counts else sum(count for count in counts if count is not None)


def missing_images(cell: Any) -> list[str]:
    """That the copy of the dataset lacks published images, in words; else empty."""
    images, published = cell.record.part("data", "images"), published_images(cell.dataset, cell.domains)
    if published is None or not isinstance(images, int) or images == published:
        return []
    return [f"a copy of the dataset with {images:,} images; {published:,} were published"]


def _words(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values)) if isinstance(values, list) else ()
