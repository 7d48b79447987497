import io
import sys

import pytest
from rich.console import Console

from dualtta.progress import bars, progress, track


@pytest.fixture
def screen(monkeypatch):
    """What a terminal on stderr shows."""
    shown = io.StringIO()
    monkeypatch.setattr("rich.console.Console", lambda **options: Console(file=shown, force_terminal=True, width=100))
    return shown


def test_a_bar_shows_title_count_and_note(screen):
    with progress("reading", shown=True) as bar:
        bar(2, 5, "fast")
        bar.advance(2)
    assert "reading" in screen.getvalue()
    assert "4/5" in screen.getvalue()
    assert "fast" in screen.getvalue()


def test_track_yields_every_item_and_counts_it(screen):
    assert list(track([3, 1, 2], "sorting")) == [3, 1, 2]
    assert "3/3" in screen.getvalue()
    assert list(track((n for n in range(3)), "of unknown length")) == [0, 1, 2]


def test_nothing_is_shown_when_it_is_switched_off(screen):
    with progress("hidden", 3, shown=False) as bar:
        bar(3)
    assert screen.getvalue() == ""


def test_nothing_is_shown_where_stderr_is_no_terminal(capfd):
    with progress("piped", 3) as bar:
        bar(3)
    with bars() as display:
        display.add_task("piped", note="")
    assert list(track("ab", "piped")) == ["a", "b"]
    assert capfd.readouterr() == ("", "")


def test_rich_is_imported_only_when_a_bar_is_made():
    import subprocess

    code = "import sys, dualtta.progress; assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
