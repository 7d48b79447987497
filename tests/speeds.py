"""The same stream at two speeds: what tests of shortcuts, micro-batches and compiled passes share."""

import warnings

import torch
from torch import nn

import dualtta
from dualtta.testing import run, small_stream

METHODS = [name for name in dualtta.METHODS if name not in ("source", "norm")]
LOOSE = {
    "dualtta": {"tau_sa": 0.05, "tau_sp": 0.1},
    "deyo": {"tau_plpd": 0.0},
    "deyo_dual": {"tau_plpd": 0.05},
    "eata": {"epsilon": 0.9},
    "dualtta_safe": {"tau_sa": 0.05, "tau_sp": 0.1, "crowd": 2.5, "steady": 0.5},
}


def both(model, method, batches, speed="safe", **options):
    """The same stream at full cost and with shortcuts, in float64, where only rounding may differ."""
    options = {"lr": 1e-3, **LOOSE.get(method, {}), **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dualtta.CollapseWarning)
        pairs = [(a := dualtta.adapt(model.double(), method, speed=s, **options), run(a, batches)) for s in ("naive", speed)]
    return pairs


def assert_same(naive, quick, limit=1e-9):
    (reference, steps), (adapter, others) = naive, quick
    for a, b in zip(steps, others, strict=True):
        assert (a.logits - b.logits).abs().max() < limit
        assert torch.equal(a.plus, b.plus)
        assert torch.equal(a.minus, b.minus)
        assert (a.weight - b.weight).abs().max() < limit
        assert abs(a.loss - b.loss) < limit
        assert (a.updated, a.skipped, a.recovered, a.collapsing) == (b.updated, b.skipped, b.recovered, b.collapsing)
        assert same_draws(a, b)
        for name in a.drops:
            looked = ~b.drops[name].isnan()
            assert (a.drops[name] - b.drops[name])[looked].abs().max().nan_to_num() < limit if looked.any() else True
    for name, value in reference.weights.values().items():
        assert (value - adapter.weights.values()[name]).abs().max() < limit
    assert reference.memory.keys() == adapter.memory.keys()
    for name, value in reference.memory.items():
        assert (value - adapter.memory[name]).abs().max() < limit


def same_draws(a, b):
    return a.draws.keys() == b.draws.keys() and all(all(map(torch.equal, a.draws[name], b.draws[name])) for name in a.draws)


def doubles(batches=5, size=12, seed=0):
    return [x.double() for x in small_stream(batches, size, seed=seed)]


class Centred(nn.Module):
    """Samples that influence each other, by no BatchNorm."""

    def forward(self, x):
        return x - 0.5 * x.mean(0, keepdim=True)
