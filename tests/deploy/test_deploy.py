"""`dualtta adapt`: predictions for a folder of images, in order, and errors before any work."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import dualtta as package
from dualtta.cli import main
from dualtta.deploy.model import open_deployed, parse_method
from dualtta.deploy.predictions import COLUMNS


def test_every_image_gets_a_row_in_sorted_order(undisturbed, photos, rows_of):
    out, done = undisturbed
    rows = rows_of(out)
    assert tuple(rows[0]) == COLUMNS
    paths = [row["path"] for row in rows]
    assert len(paths) == 121
    assert paths == sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.png"))
    for row in rows:
        if not row["error"]:
            assert 0 <= int(row["class"]) < 10
            assert 0.1 <= float(row["confidence"]) <= 1
            assert 0 <= float(row["entropy"]) <= np.log(10) + 1e-6
            assert (row["d_plus"], row["d_minus"]) in {("0", "0"), ("1", "0"), ("0", "1")}
    assert any(row["d_plus"] == "1" for row in rows)
    summary = json.loads(done.stdout)
    assert (summary["images"], summary["done"], summary["unreadable"], summary["interrupted"]) == (121, 121, 2, False)
    assert summary["updates"] > 3


def test_unreadable_images_are_reported_and_the_others_predicted(undisturbed, rows_of):
    out, done = undisturbed
    bad = {row["path"]: row for row in rows_of(out) if row["error"]}
    assert set(bad) == {"b/001.png", "b/small.png"}
    assert "an HTML page" in bad["b/001.png"]["error"]
    assert bad["b/small.png"]["class"] == bad["b/small.png"]["confidence"] == ""
    assert sorted(line.split(":")[1].strip() for line in done.stderr.splitlines()) == ["b/001.png", "b/small.png"]


def test_predictions_and_state_are_those_of_the_adapter_itself(undisturbed, photos, weights, tmp_path, rows_of):
    out, _ = undisturbed
    deployed = open_deployed("resnet_tiny", str(weights))
    adapter = package.adapt(deployed.model, parse_method("dualtta", ["reduction=mean", "tau_sp=0.1"]), lr=0.01)
    paths = sorted(path.relative_to(photos).as_posix() for path in photos.rglob("*.png"))
    found = {}
    for start in range(0, len(paths), 8):
        good = [path for path in paths[start : start + 8] if path not in ("b/001.png", "b/small.png")]
        if not good:
            continue  # the last batch is the empty file alone
        x = torch.stack([deployed.preprocess(Image.open(photos / path)) for path in good])
        found |= dict(zip(good, adapter(x).argmax(1).tolist(), strict=True))
    assert {row["path"]: int(row["class"]) for row in rows_of(out) if not row["error"]} == found
    fresh = package.adapt(deployed.model, parse_method("dualtta", ["reduction=mean", "tau_sp=0.1"]), lr=0.01)
    fresh.load(out.with_suffix(".safetensors"))
    assert fresh.steps == adapter.steps
    for name, value in adapter.weights.values().items():
        assert torch.equal(value, fresh.weights.values()[name])


def test_without_resizing_images_of_another_size_are_errors(tmp_path, rows_of, adapt_photos):
    for number, size in enumerate((28, 28, 30, 28)):
        Image.new("RGB", (size, 28)).save(tmp_path / f"{number}.png")
    adapt_photos(tmp_path / "p.csv", images=tmp_path)
    rows = rows_of(tmp_path / "p.csv")
    assert [bool(row["error"]) for row in rows] == [False, False, True, False]
    assert rows[2]["error"] == "30 x 28 pixels, where the first image has 28 x 28"


def test_a_folder_of_nothing_but_unreadable_images_still_ends(tmp_path, adapt_photos):
    for number in range(20):
        (tmp_path / f"{number}.jpg").write_bytes(b"nothing")
    summary = adapt_photos(tmp_path / "p.csv", images=tmp_path)
    assert (summary["done"], summary["unreadable"], summary["updates"]) == (20, 20, 0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--images", "nowhere"], "there is no folder nowhere"),
        (["--images", "{empty}"], "holds no images"),
        (["--weights", "nothing.pt"], "there is no weights file nothing.pt"),
        (["--model", "resnet_tinny"], "did you mean 'resnet_tiny'?"),
        (["--model", "resnet18"], "holds the weights of another model"),
        (["--method", "dualta"], "there is no method 'dualta'; did you mean 'dualtta'?"),
        (["--set", "tau_sb=0.5"], "dualtta has no setting 'tau_sb'; did you mean"),
        (["--set", "tau_sp=7"], "tau_sp must be a number between -1 and 1, not 7"),
        (["--set", "tau_sp"], "a setting is written key=value, not 'tau_sp'"),
        (["--set", "filter_sa=maybe"], "filter_sa must be true or false"),
        (["--set", "lr=0.1"], "dualtta has no setting 'lr'"),
        (["--lr", "-1"], "lr must be a number above 0"),
        (["--lr", "fast"], "lr"),
        (["--batch-size", "0"], "batch_size must be a whole number of at least 1"),
        (["--classes", "7"], "is for 10 classes, not 7"),
        (["--classes", "names.txt"], "there is no file names.txt"),
        (["--device", "toaster"], "the device 'toaster' cannot be used"),
        (["--out", "missing/p.csv"], "there is no folder missing"),
        (["--out", "."], "is a folder: name a file"),
        (["--state", "p.csv"], "cannot both be"),
        (["--colour", "red"], "colour"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2_and_nothing_is_written(
    change, says, weights, tmp_path, monkeypatch, capsys, arguments
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments("p.csv", *[part.format(empty=weights.parent) for part in change])) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_the_default_method_is_the_one_to_leave_on(tmp_path, arguments):
    out = tmp_path / "p.csv"
    args = [arg for arg in arguments(out) if arg not in ("--method", "dualtta")]
    assert main(args) == 0
    told = arguments(tmp_path / "told.csv", "--method", "dualtta_safe")
    assert main(told) == 0
    assert out.read_bytes() == (tmp_path / "told.csv").read_bytes()
