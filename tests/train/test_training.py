"""An interrupted training is resumed and ends with the same weights."""

import dataclasses
import json

import numpy as np
import pytest

from dualtta.train import train
from dualtta.train.training import Trainer
from dualtta.zoo.checkpoint import read_weights


@pytest.mark.slow
def test_a_training_killed_at_any_moment_ends_with_the_same_bits(squares, tmp_path, start_training):
    whole = start_training(tmp_path / "whole")
    dice = np.random.default_rng(5)
    killed = 0
    for _ in range(4):
        cut = start_training(tmp_path / "cut")
        cut.join(float(dice.uniform(0.05, 0.5)))
        if cut.is_alive():
            cut.kill()
            killed += 1
        cut.join()
    assert killed  # or nothing was tried
    rest = start_training(tmp_path / "cut")
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
def test_a_checkpoint_is_used_and_holds_the_optimiser(optimizer, buffer, squares, tmp_path, monkeypatch, quick):
    source = quick(recipe=dataclasses.replace(quick().recipe, optimizer=optimizer, lr=2e-3))
    whole = train(source, tmp_path / "whole", squares)
    ran = []
    original = Trainer.train_epoch

    def stop_after_one(self, images, epoch, on_step):
        if ran:
            raise KeyboardInterrupt
        ran.append(epoch)
        return original(self, images, epoch, on_step)

    monkeypatch.setattr(Trainer, "train_epoch", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        train(source, tmp_path / "cut", squares)
    home = tmp_path / "cut" / source.key
    assert not (home / "card.json").exists()
    kept = read_weights(home / "checkpoint.safetensors")
    assert any(name.startswith("optimizer/") and name.endswith(buffer) for name in kept)
    rest = []

    def count(self, images, epoch, on_step):
        rest.append(epoch)
        return original(self, images, epoch, on_step)

    monkeypatch.setattr(Trainer, "train_epoch", count)
    train(source, tmp_path / "cut", squares)
    assert rest == [2]
    assert (home / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
