"""Source models: saved with their card, named by their settings, trained once, the same for the same seed."""

import dataclasses
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from dualtta.train import load_source, train
from dualtta.zoo.checkpoint import file_hash, read_weights
from dualtta.zoo.registry import MODELS


def test_a_source_model_is_trained_saved_with_its_card_and_loaded(squares, tmp_path, quick):
    folder = train(quick(), tmp_path, squares)
    assert folder == tmp_path / quick().key
    assert sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) == ["card.json", "model.safetensors"]
    model, preprocess, card = load_source(folder)
    assert card["classes"] == ["bright", "dark"]
    assert card["data"]["domains"] == ["day"]
    assert card["data"]["train_images"] == 32
    assert card["data"]["kept_in_memory"] is True
    assert "held out: 20% of the source" in card["accuracy"]["validation"]["from"]
    assert card["accuracy"]["validation"]["images"] == 8
    assert len(card["history"]) == 2
    assert card["history"][card["epoch"] - 1]["validation"] == max(epoch["validation"] for epoch in card["history"])
    assert card["accuracy"]["validation"]["accuracy"] == card["history"][card["epoch"] - 1]["validation"]
    assert card["weights"]["sha256"] == file_hash(folder / "model.safetensors")
    assert card["source"]["recipe"]["lr"] == 0.02
    assert card["seconds"] > 0
    assert card["versions"]["torch"] == torch.__version__.split("+")[0] or card["versions"]["torch"] == torch.__version__
    assert preprocess == MODELS["resnet_tiny"].preprocess
    assert not model.training
    with torch.no_grad():
        bright = model(preprocess(np.full((28, 28, 3), 200, np.uint8))[None])
    assert bright.shape == (1, 2)


def test_a_finished_model_is_not_trained_again_and_other_images_are_rejected(squares, tmp_path, quick):
    folder = train(quick(), tmp_path, squares)
    before = (folder / "card.json").stat().st_mtime_ns
    assert train(quick(), tmp_path, squares) == folder
    assert train(quick(), tmp_path) == folder  # the images may be gone by now
    assert (folder / "card.json").stat().st_mtime_ns == before
    other = tmp_path / "other"
    for name in ("bright", "dark"):
        (other / "day" / name).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (28, 28)).save(other / "day" / name / f"{number}.png")
    with pytest.raises(ValueError, match="was trained on other images"):
        train(quick(), tmp_path, other)


def test_the_same_seed_gives_the_same_bits_and_the_global_generator_is_left_alone(squares, tmp_path, quick):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = train(quick(), tmp_path / "a", squares)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    second = train(quick(), tmp_path / "b", squares)
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    third = train(quick(seed=4), tmp_path / "b", squares)
    mine, theirs = (read_weights(folder / "model.safetensors")["fc.weight"] for folder in (first, third))
    assert not torch.equal(mine, theirs)


def test_every_setting_changes_the_key(squares, tmp_path, quick):
    start = tmp_path / "start.safetensors"
    save_file(MODELS["resnet_tiny"].build(5).state_dict(), start)
    other = tmp_path / "other.safetensors"
    save_file(MODELS["resnet_tiny"].build(5).state_dict(), other)
    moved = tmp_path / "moved.safetensors"
    moved.write_bytes(start.read_bytes())
    sources = [
        quick(),
        quick(seed=4),
        quick(model="resnet26_gn"),
        quick(choices={"domains": ["night"]}),
        quick(recipe=dataclasses.replace(quick().recipe, lr=0.03)),
        quick(limit=10),
        quick(weights="pretrained"),
        quick(weights=str(start)),
        quick(weights=str(other)),
    ]
    assert len({source.key for source in sources}) == len(sources)
    assert quick(weights=str(start)).key == quick(weights=str(moved)).key
    assert quick(choices={"domains": ("day",)}).key == quick().key


def test_weights_of_other_classes_start_a_training_with_a_new_head(squares, tmp_path, quick):
    torch.manual_seed(0)
    start = MODELS["resnet_tiny"].build(5)
    save_file(start.state_dict(), tmp_path / "start.safetensors")
    slow = dataclasses.replace(quick().recipe, epochs=1, lr=1e-8)
    folder = train(quick(weights=str(tmp_path / "start.safetensors"), recipe=slow), tmp_path, squares)
    model, _, card = load_source(folder)
    assert card["source"]["weights"].startswith("sha256:")
    assert model.fc.out_features == 2
    assert torch.allclose(model.conv1.weight, start.conv1.weight, atol=1e-5)


@pytest.mark.parametrize("augment", ["none", "zoom_flip"])
def test_an_image_that_cannot_be_read_is_named_in_one_line(augment, squares, tmp_path, quick):
    root = tmp_path / "squares"
    shutil.copytree(squares, root)
    (root / "day" / "dark" / "3.png").write_bytes(b"<html>sign in</html>")
    whole = dataclasses.replace(quick().recipe, augment=augment, keep="last", holdout=0.0)
    with pytest.raises(ValueError, match=r"dark/3\.png: an HTML page saved under this name") as error:
        train(quick(recipe=whole), tmp_path, root)
    assert "Traceback" not in str(error.value)


@pytest.mark.slow
def test_two_processes_that_want_the_same_model_train_it_once(squares, tmp_path, start_training):
    children = [start_training(tmp_path) for _ in range(2)]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert len(list(tmp_path.glob("*/card.json"))) == 1
    load_source(next(tmp_path.iterdir()))
