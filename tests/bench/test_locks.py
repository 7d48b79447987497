"""Lock files of running tasks: those of killed processes do not count."""

import platform
import signal
import subprocess
import sys

from dualtta.bench.locks import RunningTask, lock, remove_stale_locks, running_tasks

HOLD = """
import sys
from pathlib import Path
from dualtta.bench.locks import RunningTask, lock
with lock(Path({out!r}), RunningTask("cell", "abc", "a cell")):
    print("here", flush=True)
    sys.stdin.read()
"""


def test_a_killed_process_does_not_count_as_running(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(out=str(tmp_path))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "here\n"
        (task,) = running_tasks(tmp_path)
        assert (task.key, task.pid, task.host) == ("abc", child.pid, platform.node())
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert len(list((tmp_path / "running").iterdir())) == 1  # left behind, not locked
    assert running_tasks(tmp_path) == []
    remove_stale_locks(tmp_path)
    assert not list((tmp_path / "running").iterdir())


def test_only_stale_locks_of_this_machine_are_removed(tmp_path):
    with lock(tmp_path, RunningTask("cell", "abc", "a cell")):
        other = tmp_path / "running" / "def-elsewhere-1.json"
        other.write_text("{}")
        remove_stale_locks(tmp_path)
        assert len(running_tasks(tmp_path)) == 1
        assert other.exists()


def test_a_lock_file_that_cannot_be_written_does_not_stop_the_task(tmp_path):
    (tmp_path / "running").write_text("a file where the folder should be")
    with lock(tmp_path, RunningTask("cell", "abc", "a cell")):
        assert running_tasks(tmp_path) == []
    remove_stale_locks(tmp_path)


def test_two_processes_on_one_cell_have_a_lock_file_each(tmp_path, monkeypatch):
    with lock(tmp_path, RunningTask("cell", "abc", "a cell")):
        monkeypatch.setattr("os.getpid", lambda: 1)
        with lock(tmp_path, RunningTask("cell", "abc", "a cell")):
            assert len(running_tasks(tmp_path)) == 2
        assert len(running_tasks(tmp_path)) == 1
