"""`dualtta adapt`: a folder of images, a model of one's own; predictions survive kills, Ctrl-C, bad files and full disks."""

import contextlib
import csv
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import dualtta as package
from dualtta import state as states
from dualtta.adapter import KIND
from dualtta.cli import main
from dualtta.data import Preprocess
from dualtta.deploy import adapt_folder
from dualtta.deploy.model import open_deployed, parse_method, read_classes
from dualtta.deploy.predictions import COLUMNS, Predictions
from dualtta.zoo.registry import MODELS


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """120 small images in two folders, two of them unreadable, and a file that is no image."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for number in range(120):
        path = root / ("b" if number % 3 else "a/deep") / f"{number:03d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (28, 28, 3), np.uint8)).save(path)
    (root / "b" / "001.png").write_bytes(b"<html>sign in</html>")
    (root / "b" / "small.png").write_bytes(b"")
    (root / "notes.txt").write_text("not an image")
    return root


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """The weights of a tiny network whose output depends on its input."""
    torch.manual_seed(0)
    model = MODELS["resnet_tiny"].build(10)
    with torch.no_grad():
        model.fc.weight.mul_(20)  # confident enough for the method to select samples
    path = tmp_path_factory.mktemp("weights") / "net.safetensors"
    save_file(model.state_dict(), path)
    return path


def arguments(photos, weights, out, *others):
    own = ["adapt", "--method", "dualtta", "--model", "resnet_tiny", "--weights", weights, "--images", photos, "--out", out]
    return [str(arg) for arg in (*own, "--batch-size", 8, "--lr", 0.01, "--set", "reduction=mean", "tau_sp=0.1", *others)]


def rows_of(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(*args, **options):
    command = [sys.executable, "-m", "dualtta", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, **options)


@pytest.fixture(scope="module")
def undisturbed(photos, weights, tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed") / "p.csv"
    done = run(*arguments(photos, weights, out, "--json"))
    assert done.returncode == 0, done.stderr
    return out, done


def test_every_image_gets_a_row_in_sorted_order(undisturbed, photos):
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


def test_unreadable_images_are_reported_and_the_others_predicted(undisturbed):
    out, done = undisturbed
    bad = {row["path"]: row for row in rows_of(out) if row["error"]}
    assert set(bad) == {"b/001.png", "b/small.png"}
    assert "an HTML page" in bad["b/001.png"]["error"]
    assert bad["b/small.png"]["class"] == bad["b/small.png"]["confidence"] == ""
    assert sorted(line.split(":")[1].strip() for line in done.stderr.splitlines()) == ["b/001.png", "b/small.png"]


def test_predictions_and_state_are_those_of_the_adapter_itself(undisturbed, photos, weights, tmp_path):
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


class Child:
    """The command in a process of its own, forked from one that has torch loaded already."""

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dualtta.deploy", "dualtta.deploy.model", "dualtta.zoo.registry"])

    def __init__(self, args, largest=None):
        self.ours, theirs = self.context.Pipe()
        self.process = self.context.Process(target=command, args=(theirs, args, largest))
        self.process.start()
        theirs.close()
        assert self.ours.recv() == "ready"

    def end(self):
        """Its exit code and what it said on stderr."""
        assert self.ours.poll(60)
        said = self.ours.recv()
        self.process.join()
        self.ours.close()
        return said


def command(connection, args, largest):
    torch.set_num_threads(1)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))  # writes beyond it fail as on a full disk
    said = io.StringIO()
    connection.send("ready")
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(args)
    connection.send((code, said.getvalue()))


def same(one, other):
    """Whether two runs left the same files."""
    states = [path.with_suffix(".safetensors").read_bytes() for path in (one, other)]
    return one.read_bytes() == other.read_bytes() and states[0] == states[1]


def test_a_run_killed_at_random_moments_and_resumed_ends_with_the_same_files(photos, weights, undisturbed, tmp_path):
    out = tmp_path / "p.csv"
    dice = random.Random(11)
    killed = 0
    for _ in range(6):
        child = Child(arguments(photos, weights, out, "--save-every", 0, "--resume"))
        child.process.join(dice.uniform(0.02, 0.5))
        if child.process.is_alive():
            child.process.kill()
            killed += 1
        child.process.join()
        child.ours.close()
    assert killed
    if out.exists():
        for row in rows_of(out):
            assert None not in row.values()  # whole rows only
    assert Child(arguments(photos, weights, out, "--resume")).end()[0] == 0
    assert same(out, undisturbed[0])


def test_rows_after_the_last_state_are_made_again(photos, weights, undisturbed, tmp_path):
    """Killed between writing the rows of a batch and saving the state, at every possible point."""
    whole = undisturbed[0].read_bytes()
    for stop in (1, 5, 15):
        out = tmp_path / f"{stop}.csv"
        count = iter(range(1000))
        _run(photos, weights, out, stop=lambda count=count, stop=stop: next(count) + 1 >= stop)
        assert whole.startswith(out.read_bytes())
        size = out.stat().st_size
        for tail in (b"", whole[size : size + 40], whole[size : size + 900], b"torn, ro"):
            with out.open("ab") as file:
                file.write(tail)
            state = out.with_suffix(".safetensors").read_bytes()
            _run(photos, weights, out, resume=True)
            assert same(out, undisturbed[0]), (stop, tail)
            out.write_bytes(whole[:size])
            out.with_suffix(".safetensors").write_bytes(state)


def _run(photos, weights, out, **options):
    deployed = open_deployed("resnet_tiny", str(weights))
    adapter = package.adapt(deployed.model, parse_method("dualtta", ["reduction=mean", "tau_sp=0.1"]), lr=0.01)
    given = {"batch_size": 8, "origin": deployed.origin, "save_every": 1e9, **options}
    return adapt_folder(adapter, deployed.preprocess, photos, out, **given)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_leaves_a_valid_csv_and_its_state(number, code, photos, weights, undisturbed, tmp_path):
    out = tmp_path / "p.csv"
    many = tmp_path / "many"  # enough images that the signal comes before the end
    for copy in range(6):
        shutil.copytree(photos / "b", many / str(copy))
    child = Child(arguments(many, weights, out, "--save-every", 1000))
    while not out.exists() or out.stat().st_size < 2000:
        assert child.process.is_alive()
        child.process.join(0.005)
    os.kill(child.process.pid, number)
    ended, said = child.end()
    assert ended == code
    assert "interrupted; continue with --resume" in said
    done = len(rows_of(out))
    assert done % 8 == 0
    assert 0 < done < 6 * 81
    fresh = tmp_path / "whole.csv"
    assert main(arguments(many, weights, fresh)) == 0
    assert fresh.read_bytes().startswith(out.read_bytes())
    assert main(arguments(many, weights, out, "--resume")) == 0
    assert same(out, fresh)


def test_a_finished_run_is_not_overwritten_and_resuming_it_changes_nothing(photos, weights, undisturbed, capsys):
    out, _ = undisturbed
    before = out.read_bytes(), out.with_suffix(".safetensors").read_bytes()
    assert main(arguments(photos, weights, out)) == 2
    assert "exists already: continue it with --resume" in capsys.readouterr().err
    assert main(arguments(photos, weights, out, "--resume")) == 0
    assert (out.read_bytes(), out.with_suffix(".safetensors").read_bytes()) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--batch-size", "16"], "saved with batch_size 8, not 16"),
        (["--lr", "0.02"], "saved with lr=0.01"),
        (["--set", "lam=0.1"], "saved with lam=0.5"),
        (["--method", "tent", "--set", "spare=0.0"], "tent has no setting"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(change, says, photos, weights, undisturbed, capsys):
    out, _ = undisturbed
    before = out.read_bytes()
    assert main(arguments(photos, weights, out, "--resume", *change)) == 2
    assert says in capsys.readouterr().err
    assert out.read_bytes() == before


def test_a_run_is_not_resumed_with_other_images_weights_or_a_changed_csv(photos, weights, tmp_path):
    out = tmp_path / "p.csv"
    count = iter(range(1000))
    _run(photos, weights, out, stop=lambda: next(count) >= 2)
    with pytest.raises(ValueError, match="saved with origin"):
        _run(photos, weights, out, resume=True, origin="another file")
    fewer = tmp_path / "fewer"
    fewer.mkdir()
    (fewer / "x.png").write_bytes((photos / "b" / "002.png").read_bytes())
    with pytest.raises(ValueError, match="first images are not those that were done"):
        _run(fewer, weights, out, resume=True)
    out.write_bytes(out.read_bytes().replace(b"0", b"7", 1))
    with pytest.raises(ValueError, match="has been changed: remove it"):
        _run(photos, weights, out, resume=True)
    out.unlink()
    with pytest.raises(ValueError, match="which does not exist"):
        _run(photos, weights, out, resume=True)


def test_resuming_never_removes_another_csv(photos, weights, tmp_path):
    out = tmp_path / "p.csv"
    out.write_text("name,salary\n")
    with pytest.raises(ValueError, match="not a CSV file of predictions"):
        _run(photos, weights, out, resume=True)
    assert out.read_text() == "name,salary\n"


@pytest.mark.parametrize("limit", [50, 3000])
def test_a_full_disk_is_one_line_and_leaves_whole_batches(limit, photos, weights, undisturbed, tmp_path):
    out = tmp_path / "p.csv"
    code, said = Child(arguments(photos, weights, out, "--save-every", 1000), largest=limit).end()
    assert code == 2
    assert [line for line in said.splitlines() if "File too large" in line] == said.splitlines()[-1:]
    names = {path.name for path in tmp_path.iterdir()}
    if out.exists():
        assert undisturbed[0].read_bytes().startswith(out.read_bytes())
        assert out.read_bytes().endswith(b"\n")
        assert len(rows_of(out)) % 8 == 0
    assert names <= {"p.csv"}  # no part of a state, no leftovers
    assert main(arguments(photos, weights, out, "--resume")) == 0
    assert same(out, undisturbed[0])


def test_rows_are_written_all_or_none(tmp_path, monkeypatch):
    table = Predictions.create(tmp_path / "p.csv")
    table.append([["a", 1, "", 0.5, 0.1, 0, 0, ""]])
    before = (tmp_path / "p.csv").read_bytes()
    inner = table._file

    class Full:
        def __getattr__(self, name):
            return getattr(inner, name)

        def write(self, data):
            if len(data) > 10:
                return inner.write(data[:10])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(table, "_file", Full())
    with pytest.raises(OSError, match=r"No space left on device: .*p\.csv"):
        table.append([["b" * 15, *[""] * 7]])
    assert (tmp_path / "p.csv").read_bytes() == before
    monkeypatch.setattr(table, "_file", inner)
    table.append([["c\nd", *[""] * 7], ["\udce9.png", *[""] * 7]])
    table.close()
    assert [row["path"] for row in rows_of(tmp_path / "p.csv")] == ["a", "c\nd", "\\udce9.png"]


def test_class_names_come_from_a_file_or_from_the_source_model(photos, weights, tmp_path, capsys):
    names = tmp_path / "classes.txt"
    names.write_text("\ufeff" + "\n".join(f"kind {number}" for number in range(10)), encoding="utf-8")  # as Notepad saves it
    assert read_classes(str(names)) == (10, tuple(f"kind {number}" for number in range(10)))
    assert main(arguments(photos, weights, tmp_path / "p.csv", "--classes", names)) == 0
    row = rows_of(tmp_path / "p.csv")[0]
    assert row["name"] == f"kind {row['class']}"
    capsys.readouterr()
    assert main(arguments(photos, weights, tmp_path / "p.csv", "--resume")) == 2  # the other rows would have no names
    assert "saved with class_names" in capsys.readouterr().err


def test_states_without_class_names_can_be_resumed(photos, weights, tmp_path):
    names, out = tmp_path / "classes.txt", tmp_path / "p.csv"
    names.write_text("\n".join(f"kind {number}" for number in range(10)))
    assert main(arguments(photos, weights, out, "--classes", names)) == 0
    tensors, header = states.read(out.with_suffix(".safetensors"), KIND)
    del header["deployment"]["about"]["class_names"]
    states.write(out.with_suffix(".safetensors"), KIND, tensors, header)
    assert main(arguments(photos, weights, out, "--classes", names, "--resume")) == 0


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


def test_without_resizing_images_of_another_size_are_errors(weights, tmp_path):
    for number, size in enumerate((28, 28, 30, 28)):
        Image.new("RGB", (size, 28)).save(tmp_path / f"{number}.png")
    _run(tmp_path, weights, tmp_path / "p.csv")
    rows = rows_of(tmp_path / "p.csv")
    assert [bool(row["error"]) for row in rows] == [False, False, True, False]
    assert rows[2]["error"] == "30 x 28 pixels, where the first image has 28 x 28"


def test_a_folder_of_nothing_but_unreadable_images_still_ends(weights, tmp_path):
    for number in range(20):
        (tmp_path / f"{number}.jpg").write_bytes(b"nothing")
    summary = _run(tmp_path, weights, tmp_path / "p.csv")
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
    change, says, photos, weights, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments(photos, weights, "p.csv", *[part.format(empty=weights.parent) for part in change])) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore")  # torch's own, about how these are made
def test_torchscript_is_refused_with_the_reason(photos, tmp_path, capsys):
    net = MODELS["resnet_tiny"].build(10).eval()
    torch.jit.save(torch.jit.trace(net, torch.zeros(2, 3, 28, 28)), tmp_path / "net.pt")
    assert main(arguments(photos, tmp_path / "net.pt", tmp_path / "p.csv")) == 2
    assert "a TorchScript program; its norm layers cannot be adapted" in capsys.readouterr().err
    assert not (tmp_path / "p.csv").exists()


def test_the_default_method_is_the_one_to_leave_on(photos, weights, tmp_path):
    out = tmp_path / "p.csv"
    args = [arg for arg in arguments(photos, weights, out) if arg not in ("--method", "dualtta")]
    assert main(args) == 0
    told = arguments(photos, weights, tmp_path / "told.csv", "--method", "dualtta_safe")
    assert main(told) == 0
    assert out.read_bytes() == (tmp_path / "told.csv").read_bytes()
