"""`dualtta train`: its output and its errors."""

import json

import pytest


def test_the_command_trains_quietly_and_prints_the_card(squares, tmp_path, cli):
    images = ["folder", "--root", squares, "--domains", "day,night", "--limit", 30]
    settings = ["--model", "resnet_tiny", "--epochs", 1, "--batch-size", 8, "--seed", 2, "--device", "cpu"]
    done = cli("train", *images, *settings, "--out", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    card = json.loads(done.stdout)
    assert card["sampled"] is True
    assert card["source"]["limit"] == 30
    assert card["data"]["domains"] == ["day", "night"]
    assert (tmp_path / card["key"] / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["folders"], "there is no dataset 'folders'; did you mean 'folder'?"),
        (["folder"], "folder needs the folder that holds it"),
        (["folder", "--root", "nowhere"], "there is no folder nowhere"),
        (["folder", "--root", "{squares}", "--domains", "nite"], "has no domain 'nite'; did you mean 'night'?"),
        (["folder", "--root", "{squares}", "--model", "resnet_tinny"], "did you mean 'resnet_tiny'?"),
        (["folder", "--root", "{squares}", "--weights", "missing.pt"], "there is no weights file missing.pt"),
        (["folder", "--root", "{squares}", "--epochs", "0"], "epochs must be a whole number"),
        (["folder", "--root", "{squares}", "--epochs", "many"], "epochs"),
        (["folder", "--root", "{squares}", "--device", "toaster"], "the device 'toaster' cannot be used"),
        (["folder", "--root", "{squares}", "--out", "{squares}/day/dark/0.png"], "0.png"),
        (["folder", "--root", "{squares}", "--limit", "1"], "limit must be a whole number of at least 2"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2_before_any_work(args, says, squares, tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    args = [arg.format(squares=squares) for arg in args]
    if "--model" not in args and args[0] == "folder":
        args += ["--model", "resnet_tiny"]
    if "--out" not in args:
        args += ["--out", "sources"]
    done = cli("train", *args)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
