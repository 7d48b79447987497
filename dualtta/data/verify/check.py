"""Whether a folder holds a complete and readable dataset. Only reads."""

import os
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dualtta.data.datasets.base import Dataset, FileDataset
from dualtta.data.images import existing_folder, is_image
from dualtta.data.verify.archives import SUFFIXES
from dualtta.data.verify.counts import Problem, Tally, compare
from dualtta.data.verify.recognise import Found, recognise

BLOCK = 64  # images per task of a thread
Progress = Callable[[list[Any]], Iterable[Any]]


@dataclass(frozen=True)
class Report:
    """One dataset on disk: its counts and the published ones, its problems, and the next step."""

    dataset: str
    title: str
    path: str
    images: int
    classes: int
    domains: dict[str, int]
    groups: dict[str, int]
    published: dict[str, int]
    problems: list[Problem]
    notes: list[str]
    todo: str

    @property
    def ok(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def check_folder(root: str | Path, progress: Progress = iter) -> list[Report]:
    """A report on every dataset in the folder; a ValueError where there is none."""
    root = existing_folder(root)
    found = recognise(root)
    if not found:
        raise ValueError(f"no dataset is recognised in {root}: {_content(root)}")
    return [check(one, progress) for one in found]


def check(found: Found, progress: Progress = iter) -> Report:
    """Open all parts of a dataset and every image, and compare the counts with the published ones."""
    published = found.layout.published
    parts: list[Dataset] = []
    problems: list[Problem] = []
    for part in found.layout.parts(found.root):
        try:
            parts.append(part())
        except (ValueError, OSError) as error:
            problems.append(Problem(str(found.root), str(error)))
    tally = Tally.of(parts)
    notes: list[str] = []
    if published is not None and not (problems and not parts):  # where nothing opens, that is already reported
        counted, notes = compare(found.root, published, tally)
        problems += counted
    problems += [problem for part in parts if isinstance(part, FileDataset) for problem in unreadable(part, progress)]
    return Report(
        dataset=found.layout.name,
        title=published.title if published else "a folder of your own",
        path=str(found.root),
        images=sum(tally.domains.values()),
        classes=len({name for _, name in tally.cells}),
        domains=dict(tally.domains),
        groups=dict(tally.groups),
        published={**published.domains, **published.groups} if published else {},
        problems=problems,
        notes=notes,
        todo=what_to_do(found, problems),
    )


def unreadable(data: FileDataset, progress: Progress) -> list[Problem]:
    """The images that cannot be opened, with the reason. In threads: decoders release the interpreter lock."""

    def open_all(block: range) -> list[Problem]:
        found = []
        for index in block:
            try:
                data.image(index)
            except (ValueError, MemoryError) as error:
                path = data.where(index)
                found.append(Problem(path, str(error).removeprefix(f"{path}: ") or "too large for the memory", file=True))
        return found

    blocks = [range(start, min(start + BLOCK, len(data))) for start in range(0, len(data), BLOCK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about metadata, which is not used
        running = [pool.submit(open_all, block) for block in blocks]
        try:
            return [problem for future in progress(running) for problem in future.result()]
        except BaseException:
            pool.shutdown(cancel_futures=True)  # do not finish the other images after an interrupt
            raise


def what_to_do(found: Found, problems: list[Problem]) -> str:
    """The next step, in one line."""
    if not problems:
        return f"ready: open_dataset({found.layout.name!r}, {str(found.root)!r})"
    source = f" from {found.layout.published.source}" if found.layout.published else ""
    if any("git lfs" in problem.what for problem in problems):
        return f"run `git lfs pull` where {found.root} was cloned, then check again"
    if any("rename it" in problem.what for problem in problems):
        return "rename the folders as listed above, then check again"
    if all(problem.file for problem in problems):
        return f"replace the {len(problems)} file{'s'[: len(problems) > 1]} named above{source}, then check again"
    return f"the copy is incomplete: download it again{source}, unpack it with `dualtta data prepare`, then check again"


def _content(root: Path) -> str:
    names = sorted(entry.name for entry in root.iterdir())
    packed = [name for name in names if name.lower().endswith(SUFFIXES)]
    if packed:
        return f"it holds archives ({', '.join(packed[:3])}); unpack them with `dualtta data prepare {root} DST`"
    if any(is_image(name) for name in names):
        return "its images are in no folder; there must be one folder per class, or domain/class/image"
    return f"it holds {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}" if names else "it is empty"
