"""`dualtta run`: its output and its errors."""

import json

import pytest


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "bench"], "there is no experiment 'bench'"),
        (["run", "debug", "--methods", "tentt"], "did you mean 'tent'"),
        (["run", "debug", "--datasets", "pcs"], "did you mean 'pacs'"),
        (["run", "debug", "--protocol", "papper"], "did you mean 'paper'"),
        (["run", "debug", "--seeds", "one"], "seeds are whole numbers"),
        (["run", "debug", "--limit", "0"], "limit must be at least 1"),
        (["run", "debug", "--seeds", "1,-1"], "a seed is a whole number from 0 to 4294967295, not -1"),
        (["run", "debug", "--seeds", "4294967296"], "a seed is a whole number from 0 to 4294967295"),
        (["run", "debug", "--jobs", "-1"], "jobs must be at least 1"),
        (["run", "debug", "--workers", "-1"], "workers must be at least 0"),
        (["run", "debug", "--backbone", "resnet51"], "there is no model 'resnet51'"),
        (["run", "demo", "--recipe", "epoch=3"], "did you mean 'epochs'"),
        (["run", "debug", "--launcher", "rai"], "did you mean 'ray'"),
        (["run", "debug", "--device", "gpu"], "the device 'gpu' cannot be used"),
        (["run", "debug", "--root", "nowhere"], "there is no folder nowhere"),
        (["run", "cifar10-c"], "say where your data is with --root"),
    ],
)
def test_bad_settings_of_a_run_fail_before_any_work(args, says, tmp_path, monkeypatch, cli):
    monkeypatch.delenv("DUALTTA_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    done = cli(*args)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_plan_is_shown_without_running_it(tmp_path, monkeypatch, cli):
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)
    plan = json.loads(cli("run", "debug", "--launcher", "dry", "--limit", "32", "--json").stdout)
    assert plan["cells"] == len(plan["todo"]) == 6
    assert plan["seconds"] > 0
    assert not list(tmp_path.iterdir())


def test_a_run_prints_its_table_and_where_the_records_are(tmp_path, monkeypatch, cli):
    pytest.importorskip("mlxtend")
    monkeypatch.chdir(tmp_path)
    args = ("run", "debug", "--limit", "32", "--methods", "source,tent", "--seeds", "1")
    done = cli(*args)
    assert done.returncode == 0, done.stderr
    assert "32 samples (a subset), 1 seed" in done.stdout
    assert "2 cells computed, 0 were there already" in done.stdout
    assert "`dualtta report " in done.stdout
    again = json.loads(cli(*args, "--json").stdout)
    assert (again["computed"], again["skipped"]) == (0, 2)
    assert [row["method"] for row in again["rows"]] == ["source", "tent"]
