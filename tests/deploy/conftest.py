"""A folder of photos, a small model, and runs of `dualtta adapt` over them."""

import contextlib
import csv
import io
import multiprocessing
import resource
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import dualtta
from dualtta.cli import main
from dualtta.deploy import adapt_folder
from dualtta.deploy.model import open_deployed, parse_method
from dualtta.zoo.registry import MODELS


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def weights(tmp_path_factory):
    """The weights of a tiny network whose output depends on its input."""
    torch.manual_seed(0)
    model = MODELS["resnet_tiny"].build(10)
    with torch.no_grad():
        model.fc.weight.mul_(20)  # confident enough for the method to select samples
    path = tmp_path_factory.mktemp("weights") / "net.safetensors"
    save_file(model.state_dict(), path)
    return path


@pytest.fixture(scope="session")
def arguments(photos, weights):
    """A function of an output file and further arguments that returns a command line of `dualtta adapt`."""

    def line(out, *others, images=photos, weights=weights):
        model = ["--model", "resnet_tiny", "--weights", weights, "--images", images, "--out", out, "--batch-size", 8]
        method = ["--method", "dualtta", "--lr", 0.01, "--set", "reduction=mean", "tau_sp=0.1"]
        return [str(arg) for arg in ("adapt", *model, *method, *others)]

    return line


@pytest.fixture(scope="session")
def adapt_photos(photos, weights):
    """A function that runs the same adaptation through Python."""

    def run(out, images=photos, **options):
        deployed = open_deployed("resnet_tiny", str(weights))
        adapter = dualtta.adapt(deployed.model, parse_method("dualtta", ["reduction=mean", "tau_sp=0.1"]), lr=0.01)
        settings = {"batch_size": 8, "origin": deployed.origin, "save_every": 1e9, **options}
        return adapt_folder(adapter, deployed.preprocess, images, out, **settings)

    return run


@pytest.fixture(scope="session")
def rows_of():
    """A function that reads the rows of a CSV file."""

    def read(path):
        with Path(path).open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    return read


@pytest.fixture(scope="session")
def same_files():
    """Whether two runs wrote the same predictions and the same state."""

    def compare(one, other):
        states = [path.with_suffix(".safetensors").read_bytes() for path in (one, other)]
        return one.read_bytes() == other.read_bytes() and states[0] == states[1]

    return compare


@pytest.fixture(scope="session")
def undisturbed(arguments, tmp_path_factory):
    """The predictions of an uninterrupted run, with its output."""
    out = tmp_path_factory.mktemp("undisturbed") / "p.csv"
    written, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(errors):
        code = main(arguments(out, "--json"))
    assert code == 0, errors.getvalue()
    return out, SimpleNamespace(stdout=written.getvalue(), stderr=errors.getvalue())


class Child:
    """The command in its own process, forked from one that has imported torch."""

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dualtta.deploy", "dualtta.deploy.model", "dualtta.zoo.registry"])

    def __init__(self, args, largest=None):
        self.ours, theirs = self.context.Pipe()
        self.process = self.context.Process(target=command, args=(theirs, args, largest))
        self.process.start()
        theirs.close()
        assert self.ours.recv() == "ready"

    def end(self):
        """Its exit code and standard error."""
        assert self.ours.poll(60)
        result = self.ours.recv()
        self.process.join()
        self.ours.close()
        return result


def command(connection, args, largest):
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # as in a user's process
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))  # writes beyond it fail as on a full disk
    errors = io.StringIO()
    connection.send("ready")
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        code = main(args)
    connection.send((code, errors.getvalue()))


@pytest.fixture(scope="session")
def start():
    """A function that starts a command line in its own process."""
    return Child
