"""Deployed models: class names, preprocessing and weights."""

import pytest
import torch

from dualtta.cli import main
from dualtta.data import Preprocess
from dualtta.deploy.model import open_deployed, read_classes
from dualtta.zoo.registry import MODELS


def test_class_names_come_from_a_file_or_from_the_source_model(tmp_path, capsys, arguments, rows_of):
    names = tmp_path / "classes.txt"
    names.write_text("\ufeff" + "\n".join(f"kind {number}" for number in range(10)), encoding="utf-8")  # as Notepad saves it
    assert read_classes(str(names)) == (10, tuple(f"kind {number}" for number in range(10)))
    assert main(arguments(tmp_path / "p.csv", "--classes", names)) == 0
    row = rows_of(tmp_path / "p.csv")[0]
    assert row["name"] == f"kind {row['class']}"
    capsys.readouterr()
    assert main(arguments(tmp_path / "p.csv", "--resume")) == 2  # the other rows would have no names
    assert "saved with class_names" in capsys.readouterr().err


def test_a_trained_source_brings_its_preprocessing_and_class_names(tmp_path):
    from dualtta.train import Source, train
    from dualtta.train.recipes import Recipe

    recipe = Recipe(epochs=1, augment="none", keep="last", preprocess="colored_mnist")
    folder = train(Source("colored_digits", "resnet_tiny", recipe=recipe, limit=64), tmp_path)
    deployed = open_deployed(None, str(folder))
    assert deployed.names == ("0-4", "5-9")
    assert deployed.preprocess == Preprocess((0.1307, 0.1307, 0.0), (0.3081,) * 3, None)
    assert open_deployed("resnet_tiny", str(folder / "model.safetensors")).names == ("0-4", "5-9")
    with pytest.raises(ValueError, match="holds a resnet_tiny, not a resnet18"):
        open_deployed("resnet18", str(folder))


@pytest.mark.filterwarnings("ignore")  # torch's own, about how these are made
def test_torchscript_is_refused_with_the_reason(tmp_path, capsys, arguments):
    net = MODELS["resnet_tiny"].build(10).eval()
    torch.jit.save(torch.jit.trace(net, torch.zeros(2, 3, 28, 28)), tmp_path / "net.pt")
    assert main(arguments(tmp_path / "p.csv", weights=tmp_path / "net.pt")) == 2
    assert "a TorchScript program; its norm layers cannot be adapted" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()
