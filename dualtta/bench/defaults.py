"""Records computed with other defaults than their method has now. A cell's key holds the chosen settings, not the defaults."""

from collections import Counter
from collections.abc import Iterable

from dualtta.methods import change_words, changed_defaults
from dualtta.records.reading import Record


def notes(records: Iterable[Record]) -> list[str]:
    """One line for each method whose records were computed with other defaults."""
    changed = [(record.cell["method"]["name"], changed_defaults(record.cell)) for record in records]
    found = Counter((name, change_words(some)) for name, some in changed if some)
    return [
        f"{count} existing records of {name} have other defaults ({words}): compute them again with another --out"
        for (name, words), count in found.items()
    ]
