"""The number of images on disk, compared with the published numbers."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dualtta.data.datasets.base import Dataset
from dualtta.data.published import Published
from dualtta.plugins import nearest

Counts = Mapping[str, int]


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where. `file`: a file cannot be opened, as opposed to something that is missing."""

    path: str
    what: str
    file: bool = False


@dataclass(frozen=True)
class Tally:
    """Numbers of images of each (domain, class), each domain and each group (per domain where there are several)."""

    cells: Mapping[tuple[str, str], int]
    domains: Counts
    groups: Counts

    @classmethod
    def of(cls, parts: list[Dataset]) -> "Tally":
        cells: Counter[tuple[str, str]] = Counter()
        domains: Counter[str] = Counter()
        groups = {}
        for part in parts:
            pairs, counts = np.unique(np.stack([part.domain, part.labels]), axis=1, return_counts=True)
            for (domain, label), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
                cells[part.domains[domain], part.classes[label]] += count
                domains[part.domains[domain]] += count
            for number, domain in enumerate(part.domains):
                for group, name in enumerate(part.groups):
                    count = int(((part.domain == number) & (part.group == group)).sum())
                    groups[f"{domain}: {name}" if len(part.domains) > 1 else name] = count
        return cls(cells, domains, groups)


def compare(root: Path, published: Published, tally: Tally) -> tuple[list[Problem], list[str]]:
    """Problems, and notes on a deliberate subset: a severity left out, or equally many images of every class."""
    left_out = severities_left_out(published, tally)
    problems = [*wrong_domains(root, published, tally, left_out), *wrong_classes(root, published, tally)]
    notes = [f"severity {severity} is not included" for severity in sorted(left_out)]
    subset = not problems and len(set(tally.cells.values())) == 1
    counts = {**tally.domains, **tally.groups}
    fewer = 0
    for name, wanted in {**published.domains, **published.groups}.items():
        count = counts.get(name, wanted)
        if subset and count < wanted:
            fewer += name in published.domains
        elif count != wanted:
            problems.append(Problem(str(root), f"{name} has {count:,} images; {wanted:,} are published"))
    if fewer:
        each = next(iter(tally.cells.values()))
        notes.append(f"a subset: {each} of every class in {fewer} of {len(published.domains)} domains, fewer than published")
    return problems, notes


def severities_left_out(published: Published, tally: Tally) -> set[str]:
    """Severities that no corruption has: many copies hold only the fifth."""
    wanted, here = ({name.rpartition("_")[2] for name in names} for names in (published.domains, tally.domains))
    return {severity for severity in wanted - here if severity.isdecimal()} if here else set()


def wrong_domains(root: Path, published: Published, tally: Tally, left_out: set[str]) -> Iterator[Problem]:
    for name in tally.domains:
        if name not in published.domains:
            yield Problem(str(root / name), f"not a domain of {published.title}; {rename(name, published)}")
    for name, wanted in published.domains.items():
        if name not in tally.domains and name.rpartition("_")[2] not in left_out:
            yield Problem(str(root), f"{name} is missing ({wanted:,} images)")


def wrong_classes(root: Path, published: Published, tally: Tally) -> Iterator[Problem]:
    """Classes that a domain lacks, and folders that are no class."""
    known = set(published.classes)
    for name in sorted({name for _, name in tally.cells} - known):
        yield Problem(str(root), f"not a class of {published.title}: {name}")
    for domain in tally.domains:
        lacking = [name for name in published.classes if not tally.cells.get((domain, name))]
        if domain in published.domains and lacking:
            shown = ", ".join(lacking[:5]) + (f" and {len(lacking) - 5} more" if len(lacking) > 5 else "")
            yield Problem(str(root), f"{domain} lacks the class{'es'[: 2 * (len(lacking) > 1)]} {shown}")


def rename(name: str, published: Published) -> str:
    """The advice for a domain with a slightly different name, such as `Real_World` for `Real World`."""
    plain = {"".join(filter(str.isalnum, known)).lower(): known for known in published.domains}
    match = plain.get("".join(filter(str.isalnum, name)).lower())
    return f"rename it to {match!r}" if match else nearest(name, published.domains)
