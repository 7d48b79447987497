"""Source models: the recipes, the card, the same result for the same seed, and nothing lost when a training is killed."""

import dataclasses
import json
import multiprocessing
import shutil
import subprocess
import sys

import layouts
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from dualtta.cli import main
from dualtta.data import Preprocess
from dualtta.data.datasets.base import ArrayDataset
from dualtta.train import Source, load_source, make_source, train
from dualtta.train.images import Images, crop_flip, zoom_flip
from dualtta.train.parts import open_parts
from dualtta.train.recipes import RECIPES, USUAL, Recipe, recipe_for
from dualtta.train.training import Fit
from dualtta.zoo.checkpoint import file_hash, read_weights
from dualtta.zoo.registry import MODELS

QUICK = Recipe(epochs=2, lr=0.02, batch_size=16, augment="none", keep="best", holdout=0.2)


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    """Two domains of bright and dark squares, 40 images each."""
    root = tmp_path_factory.mktemp("squares")
    rng = np.random.default_rng(0)
    for domain in ("day", "night"):
        for label, name in enumerate(("dark", "bright")):
            home = root / domain / name
            home.mkdir(parents=True)
            for number in range(20):
                pixels = rng.integers(0, 90, (28, 28, 3), np.uint8) + np.uint8(130 * label)
                Image.fromarray(pixels).save(home / f"{number}.png")
    return root


def quick(**changes):
    base = Source("folder", "resnet_tiny", {"domains": ["day"]}, None, QUICK, seed=3)
    return dataclasses.replace(base, **changes)


def test_a_source_model_is_trained_kept_with_its_card_and_loaded(squares, tmp_path):
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


def test_what_is_done_is_returned_at_once_and_other_images_are_refused(squares, tmp_path):
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
    with pytest.raises(ValueError, match="trained on other images of this name"):
        train(quick(), tmp_path, other)


def test_the_same_seed_gives_the_same_bits_and_the_global_generator_is_left_alone(squares, tmp_path):
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


def test_the_key_names_all_that_decides_the_model(squares, tmp_path):
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
        quick(recipe=dataclasses.replace(QUICK, lr=0.03)),
        quick(limit=10),
        quick(weights="pretrained"),
        quick(weights=str(start)),
        quick(weights=str(other)),
    ]
    assert len({source.key for source in sources}) == len(sources)
    assert quick(weights=str(start)).key == quick(weights=str(moved)).key
    assert quick(choices={"domains": ("day",)}).key == quick().key


def test_weights_of_other_classes_start_a_training_with_a_new_head(squares, tmp_path):
    torch.manual_seed(0)
    start = MODELS["resnet_tiny"].build(5)
    save_file(start.state_dict(), tmp_path / "start.safetensors")
    slow = dataclasses.replace(QUICK, epochs=1, lr=1e-8)
    folder = train(quick(weights=str(tmp_path / "start.safetensors"), recipe=slow), tmp_path, squares)
    model, _, card = load_source(folder)
    assert card["source"]["weights"].startswith("sha256:")
    assert model.fc.out_features == 2
    assert torch.allclose(model.conv1.weight, start.conv1.weight, atol=1e-5)


def in_child(ready, folder, root):
    torch.set_num_threads(1)
    recipe = Recipe(epochs=8, lr=0.02, batch_size=16, schedule="cosine", augment="crop_flip", holdout=0.2)
    ready.set()
    train(Source("folder", "resnet_tiny", recipe=recipe, seed=1), folder, root)


def start(folder, root):
    """A training in a process of its own, forked from one that has torch loaded already; it is about to begin."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dualtta.train"])
    ready = context.Event()
    child = context.Process(target=in_child, args=(ready, folder, root))
    child.start()
    assert ready.wait(60)
    return child


def test_a_training_killed_at_any_moment_ends_with_the_same_bits(squares, tmp_path):
    whole = start(tmp_path / "whole", squares)
    dice = np.random.default_rng(5)
    killed = 0
    for _ in range(4):
        cut = start(tmp_path / "cut", squares)
        cut.join(float(dice.uniform(0.05, 0.5)))
        if cut.is_alive():
            cut.kill()
            killed += 1
        cut.join()
    assert killed  # or nothing was tried
    rest = start(tmp_path / "cut", squares)
    for child in (whole, rest):
        child.join(60)
        assert child.exitcode == 0
    one, other = (next((tmp_path / name).glob("*")) for name in ("whole", "cut"))
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    cards = [json.loads((folder / "card.json").read_text()) for folder in (one, other)]
    for card in cards:
        del card["seconds"]
    assert cards[0] == cards[1]
    assert not (other / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(("optimizer", "buffer"), [("sgd", "momentum_buffer"), ("adamw", "exp_avg_sq")])
def test_a_checkpoint_is_used_and_holds_the_optimiser(optimizer, buffer, squares, tmp_path, monkeypatch):
    source = quick(recipe=dataclasses.replace(QUICK, optimizer=optimizer, lr=2e-3))
    whole = train(source, tmp_path / "whole", squares)
    ran = []
    original = Fit.epoch

    def stop_after_one(self, images, epoch, announce):
        if ran:
            raise KeyboardInterrupt
        ran.append(epoch)
        return original(self, images, epoch, announce)

    monkeypatch.setattr(Fit, "epoch", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        train(source, tmp_path / "cut", squares)
    home = tmp_path / "cut" / source.key
    assert not (home / "card.json").exists()
    kept = read_weights(home / "checkpoint.safetensors")
    assert any(name.startswith("optimizer/") and name.endswith(buffer) for name in kept)
    rest = []

    def count(self, images, epoch, announce):
        rest.append(epoch)
        return original(self, images, epoch, announce)

    monkeypatch.setattr(Fit, "epoch", count)
    train(source, tmp_path / "cut", squares)
    assert rest == [2]
    assert (home / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_colored_mnist_is_trained_exactly_as_published():
    source = make_source("colored_mnist")
    assert (source.model, source.weights) == ("resnet18", None)
    r = source.recipe
    assert (r.optimizer, r.lr, r.momentum, r.weight_decay, r.batch_size, r.epochs) == ("sgd", 1e-3, 0.9, 1e-4, 64, 20)
    assert (r.augment, r.schedule, r.keep, r.holdout, r.preprocess) == ("none", "constant", "last", 0.0, "colored_mnist")
    parts = open_parts("colored_digits", recipe=r)
    assert parts.validation is None
    assert parts.train.domains == ("flip20", "flip10")


def test_every_usual_source_has_a_recipe_and_a_known_model():
    for dataset, (model, weights) in USUAL.items():
        assert model in MODELS
        assert dataset in RECIPES
        assert weights != "pretrained" or MODELS[model].tag
    assert recipe_for("cifar10", "resnet26_gn").optimizer == "sgd"
    assert recipe_for("waterbirds", "resnet50").validation == "val"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"lr": 0.0}, "lr must be a number above 0"),
        ({"lr": float("nan")}, "lr must be a number above 0"),
        ({"batch_size": 1}, "batch_size must be a whole number of at least 2"),
        ({"optimizer": "adam"}, "optimizer must be one of sgd, adamw"),
        ({"holdout": 1.0}, "holdout must be a share"),
        ({"holdout": 0.0}, "there must be validation images"),
        ({"momentum": 1.0}, "momentum must be"),
    ],
)
def test_recipes_refuse_what_cannot_train(changes, says):
    with pytest.raises(ValueError, match=says):
        recipe_for("pacs", "resnet50", **changes)


def test_held_out_images_are_never_trained_on_and_a_limit_is_kept(squares):
    parts = open_parts("folder", squares, {"domains": ["night"]}, QUICK, seed=1, limit=20)
    assert (len(parts.train), len(parts.validation)) == (16, 4)
    assert not {parts.train.where(i) for i in range(16)} & {parts.validation.where(i) for i in range(4)}
    again = open_parts("folder", squares, {"domains": ["night"]}, QUICK, seed=1, limit=20)
    assert [again.train.where(i) for i in range(16)] == [parts.train.where(i) for i in range(16)]
    assert all("night" in parts.train.where(i) for i in range(16))


def test_a_limit_draws_the_validation_images_too(tmp_path):
    layouts.waterbirds(tmp_path, each=10)
    recipe = Recipe(validation="val")
    some = open_parts("waterbirds", tmp_path, None, recipe, seed=1, limit=20).validation
    assert len(some) == 20
    assert set(some.labels) == {0, 1}  # the table has all land birds first
    whole = open_parts("waterbirds", tmp_path, None, recipe, seed=1).validation
    assert [whole.where(i) for i in range(40)] == [whole.base.where(i) for i in range(40)]


def test_an_epoch_meets_every_image_once_in_an_order_of_its_own():
    images = np.arange(33, dtype=np.uint8)[:, None, None, None] + np.zeros((33, 8, 8, 3), np.uint8)
    data = Images.of(ArrayDataset(images, np.zeros(33), ["a", "b"]), Preprocess(size=None))
    orders = [np.concatenate([rows for rows, _ in data.epoch(16, 0, epoch)]) for epoch in (1, 2, 1)]
    assert len(orders[0]) == 32  # the remainder of one image sits out
    assert len(set(orders[0])) == 32
    assert (orders[0] == orders[2]).all()
    assert (orders[0] != orders[1]).any()
    for rows, pixels in data.epoch(16, 0, 1):
        assert (pixels[:, 0, 0, 0].numpy() == rows).all()


def test_crop_flip_shifts_by_up_to_four_and_mirrors():
    x = torch.randint(1, 255, (200, 3, 9, 7), dtype=torch.uint8)
    draws = np.random.default_rng(0).random((200, 5))
    y = crop_flip(x, draws)
    assert y.shape == x.shape
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4))
    for i in range(200):
        down, right = int(draws[i, 0] * 9), int(draws[i, 1] * 9)
        part = padded[i, :, down : down + 9, right : right + 7]
        assert torch.equal(y[i], part.flip(2) if draws[i, 2] < 0.5 else part)


def test_zoom_flip_shows_a_part_as_pillow_would():
    rng = np.random.default_rng(0)
    smooth = np.cumsum(np.cumsum(rng.normal(size=(6, 3, 40, 40)), 2), 3)
    smooth = (255 * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.uint8)
    draws = rng.random((6, 5))
    found = zoom_flip(torch.from_numpy(smooth), draws)
    for picture, u, mine in zip(smooth, draws, found, strict=True):
        area, ratio = 0.6 + 0.4 * u[0], np.exp(np.log(3 / 4) + u[1] * np.log(16 / 9))
        wide, high = 40 * min(1, np.sqrt(area * ratio)), 40 * min(1, np.sqrt(area / ratio))
        left, top = u[2] * (40 - wide), u[3] * (40 - high)
        image = Image.fromarray(picture.transpose(1, 2, 0))
        theirs = np.array(image.resize((40, 40), Image.Resampling.BILINEAR, box=(left, top, left + wide, top + high)))
        theirs = theirs[:, ::-1] if u[4] < 0.5 else theirs
        # at its edges pillow sees the box alone
        inner = np.abs(mine.permute(1, 2, 0).numpy().astype(int) - theirs.astype(int))[2:-2, 2:-2]
        assert inner.max() <= 3
        assert inner.mean() < 0.7


def dualtta(*args, **options):
    command = [sys.executable, "-m", "dualtta", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **options)


def test_the_command_trains_quietly_and_prints_the_card(squares, tmp_path):
    args = [
        "train",
        "folder",
        "--root",
        squares,
        "--model",
        "resnet_tiny",
        "--domains",
        "day,night",
        "--epochs",
        1,
        "--limit",
        30,
    ]
    done = dualtta(*args, "--batch-size", 8, "--out", tmp_path, "--json", "--seed", 2, "--device", "cpu")
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
        (["folder"], "folder lies in a folder: say which"),
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
def test_bad_input_is_one_line_and_exit_code_2_before_any_work(args, says, squares, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    args = [arg.format(squares=squares) for arg in args]
    if "--model" not in args and args[0] == "folder":
        args += ["--model", "resnet_tiny"]
    if "--out" not in args:
        args += ["--out", "sources"]
    assert main(["train", *args]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("augment", ["none", "zoom_flip"])
def test_an_image_that_cannot_be_read_is_named_in_one_line(augment, squares, tmp_path):
    root = tmp_path / "squares"
    shutil.copytree(squares, root)
    (root / "day" / "dark" / "3.png").write_bytes(b"<html>sign in</html>")
    whole = dataclasses.replace(QUICK, augment=augment, keep="last", holdout=0.0)
    with pytest.raises(ValueError, match=r"dark/3\.png: an HTML page saved under this name") as error:
        train(quick(recipe=whole), tmp_path, root)
    assert "Traceback" not in str(error.value)


def test_two_processes_that_want_the_same_model_train_it_once(squares, tmp_path):
    children = [start(tmp_path, squares) for _ in range(2)]
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert len(list(tmp_path.glob("*/card.json"))) == 1
    load_source(next(tmp_path.iterdir()))
