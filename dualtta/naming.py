"""The way out for a misspelt name. Apart from everything else, so that whoever needs it does not wait for torch."""

import difflib
from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """Its nearest neighbour, or all there are.

    >>> nearest("tennt", ["tent", "sar"])
    "did you mean 'tent'?"
    """
    words = sorted(words)
    match = difflib.get_close_matches(word, words, 1)
    return f"did you mean {match[0]!r}?" if match else f"there are: {', '.join(words)}"
