"""Small source models, and trainings in processes of their own."""

import dataclasses
import multiprocessing

import pytest
import torch

from dualtta.train import Source, train
from dualtta.train.recipes import Recipe


@pytest.fixture(scope="session")
def quick():
    """A source model of two epochs on the squares, with changes."""
    recipe = Recipe(epochs=2, lr=0.02, batch_size=16, augment="none", keep="best", holdout=0.2)
    source = Source("folder", "resnet_tiny", {"domains": ["day"]}, None, recipe, seed=3)
    return lambda **changes: dataclasses.replace(source, **changes)


def train_in_child(ready, folder, root):
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork", force=True)  # as in a user's process: workers that decode end with it
    recipe = Recipe(epochs=8, lr=0.02, batch_size=16, schedule="cosine", augment="crop_flip", holdout=0.2)
    ready.set()
    train(Source("folder", "resnet_tiny", recipe=recipe, seed=1), folder, root)


@pytest.fixture(scope="session")
def start_training(squares):
    """Start a training in its own process, forked from one that has imported torch; returns when it is about to begin."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dualtta.train", "torch._dynamo"])  # torch.optim imports the latter, in seconds

    def start(folder):
        ready = context.Event()
        child = context.Process(target=train_in_child, args=(ready, folder, squares))
        child.start()
        assert ready.wait(60)
        return child

    return start
