"""The frame that tables, figures and the page are made of: results alone, seeds of one setting grouped, rows labelled."""

import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pandas as pd

from dualtta.records.caveats import IN_THE_RUN, ROUNDED
from dualtta.records.frame import Records
from dualtta.report import tasks
from dualtta.report.labels import by_number, earlier_defaults, earlier_words, label, setting_word
from dualtta.report.methods import about
from dualtta.report.plugins import REMARKS

MADE = ("setting", "base", "label", "task", "task_name", "benchmark", "unit", "remarks", "about")


def results(records: Records) -> Records:
    """The results among the records, with the columns

    setting     a number: cells that differ in the seed alone have the same
    label       what the row of a table is called; unique within a task, apart from seeds (`base` before it was made so)
    task        what methods are compared on (tasks.py), with its `task_name`
    benchmark   dataset, model, scenario, passes; `unit` says which part of it the task is
    remarks     what has to be said of the setting's numbers: caveats, and what its seeds differ in
    order       the sort key of the row: method by method, then by number
    about       what is known of the method (methods.py)
    run         the cell's key, with a number where two folders hold other results of the same cell

    Rows are sorted by task, `order` and seed.
    """
    frame: Records = records[records["stage"] == "result"].reset_index(drop=True)
    cells = list(frame.itertuples())
    columns: list[dict[str, Any]] = [{}] * len(cells)
    for number, (group, origin) in enumerate(settings(cells)):
        first = cells[group[0]]
        words = ", ".join([label(first), *([f"in {origin}"] if origin else [])])
        made = {
            "setting": number,
            "base": words,
            "label": words,
            "task": tasks.task(first),
            "task_name": tasks.name(first),
            "benchmark": tasks.benchmark(first),
            "unit": tasks.unit(first),
            "remarks": remarks([cells[i] for i in group]),
            "about": about(first.method, first.method_about),
        }
        for i in group:
            columns[i] = made
    for name in MADE:
        frame[name] = pd.Series([values[name] for values in columns], index=frame.index, dtype=object)
    tell_apart(frame, ["task", "label"])
    keys = [(cell.task_name, cell.task, (cell.about.order, by_number(cell.label)), cell.seed) for cell in frame.itertuples()]
    frame["order"] = pd.Series([key[2] for key in keys], index=frame.index, dtype=object)
    frame = frame.iloc[sorted(range(len(keys)), key=keys.__getitem__)].reset_index(drop=True)
    again = frame.groupby("key").cumcount()
    frame["run"] = [f"{key}-{number + 1}" if number else key for key, number in zip(frame["key"], again, strict=True)]
    frame.notes = records.notes
    return frame


def settings(cells: Sequence[Any]) -> list[tuple[list[int], str]]:
    """Positions of cells that differ in the seed alone, by seed, and the folder's name where two folders have such cells.

    The seeds of the dataset and of the source model may follow the cell's seed, unless two cells would then have one seed.
    """
    found: list[tuple[list[int], str]] = []
    for same in _grouped(range(len(cells)), lambda i: _identity(cells[i])):
        if _one_a_seed(cells, same):
            found.append((same, ""))
            continue
        for part in _grouped(same, lambda i: _identity(cells[i], draws=True)):
            if _one_a_seed(cells, part):
                found.append((part, ""))
                continue
            by_path = _grouped(part, lambda i: cells[i].path.resolve())
            homes = [cells[some[0]].path.resolve().with_name(cells[some[0]].record.group) for some in by_path]
            depth = 1 if len({home.name for home in homes}) == len(homes) else 2
            found += [(some, "/".join(home.parts[-depth:])) for some, home in zip(by_path, homes, strict=True)]
    return [(sorted(group, key=lambda i: cells[i].seed), origin) for group, origin in found]


def remarks(cells: Sequence[Any]) -> tuple[str, ...]:
    """What has to be said of a setting: the caveats of its cells, earlier defaults, what its seeds differ in, and how many runs
    collapsed, were reset often, or used hardly a sample."""
    words = context(cells[0]) + earlier_words(cells[0])
    words += [text for remark in REMARKS.values() for text in remark(cells[0])]
    words += differences(cells)
    counts = {text: sum(text in cell.caveats for cell in cells) for text in IN_THE_RUN}
    words += [f"{text} in {count} of {len(cells)} seeds" for text, count in counts.items() if count]
    return tuple(words)


def context(cell: Any) -> list[str]:
    """In what the data and the weights behind a cell differ from the published ones."""
    return [text for text in cell.caveats if not text.startswith((ROUNDED, *IN_THE_RUN))] + tasks.missing_images(cell)


def differences(cells: Sequence[Any]) -> list[str]:
    """What the seeds of one setting differ in, though it was not chosen."""
    parts: dict[str, Callable[[Any], Any]] = {
        "devices": lambda cell: (cell.device, cell.record.part("provenance", "machine", "gpu")),
        "versions of packages": lambda cell: cell.versions,
        "commits of dualtta": lambda cell: cell.commit,
        "numbers of threads": lambda cell: cell.threads,
        "source weights": lambda cell: cell.record.part("model", "card", "weights", "sha256"),
    }
    if len({json.dumps((cell.source or {}).get("seed")) for cell in cells}) > 1:
        del parts["source weights"]  # each seed has a source model of its own
    return [
        f"the seeds ran with different {name}"
        for name, part in parts.items()
        if len({json.dumps(part(cell), sort_keys=True, default=str) for cell in cells}) > 1
    ]


def _identity(cell: Any, draws: bool = False) -> str:
    """All that was chosen but the seed, defaults of an earlier version, and what it was measured on."""
    chosen = {key: value for key, value in cell.record.cell["cell"].items() if key != "seed"}
    if not draws:
        chosen["dataset"] = {key: value for key, value in chosen["dataset"].items() if key != "seed"}
        if cell.source is not None:
            chosen["model"] = {**chosen["model"], "source": {**cell.source, "seed": None}}
    return json.dumps([chosen, earlier_defaults(cell), cell.samples, cell.weights_hash], sort_keys=True, default=str)


def _grouped(numbers: Any, key: Callable[[int], Hashable]) -> list[list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for number in numbers:
        groups.setdefault(key(number), []).append(number)
    return list(groups.values())


def _one_a_seed(cells: Sequence[Any], group: list[int]) -> bool:
    return len({cells[i].seed for i in group}) == len(group)


def tell_apart(frame: Records, slot: list[str]) -> None:
    """Add to the labels of settings that share a slot and yet are not one: earlier defaults, samples, weights or number."""
    for _, same in frame.groupby(slot, sort=False):
        firsts = same.drop_duplicates("setting")
        if len(firsts) > 1:
            for setting, words in zip(firsts["setting"], difference_words(firsts), strict=True):
                frame.loc[same.index[same["setting"] == setting], "label"] += f", {words}" if words else ""


def difference_words(firsts: Records) -> list[str]:
    """What distinguishes settings of one label: earlier defaults (of today's nothing is said), learning rate, samples, weights,
    else a number."""
    earlier = [{key: used for key, (used, _) in earlier_defaults(cell).items()} for cell in firsts.itertuples()]
    choices = (
        [", ".join(setting_word(key, used) for key, used in one.items()) for one in earlier],
        [f"lr {rate:g}" for rate in firsts["lr"]],
        [f"{size:,} samples" for size in firsts["samples"]],
        [f"weights {str(weights)[:8]}" for weights in firsts["weights_hash"]],
    )
    numbers = [f"no. {number}" for number in range(1, len(firsts) + 1)]
    return next((words for words in choices if len(set(words)) == len(words)), numbers)
