"""Updates that start before the number of selected samples is known, as on a GPU, change no result."""

import dataclasses
import warnings

import pytest
import torch
from torch import nn

import dualtta
from dualtta.testing import run, same_step, small_net, small_stream

LOOSE = {
    "deyo": {"tau_plpd": 0.0},
    "dualtta": {"tau_sa": 0.05},
    "dualtta_safe": {"guard": False, "tau_sa": 0.05, "crowd": 2.5, "steady": 0.5},
}


@pytest.fixture
def hasty(monkeypatch):
    """How often an update was begun unasked."""
    begun = []

    def ahead(adapter, evaluation):
        begun.append(adapter._share > 0 and evaluation.probe.graphed == len(evaluation.probe.entropy))
        return begun[-1]

    def use(on):
        monkeypatch.setattr(dualtta.Adapter, "_speculative", ahead if on else lambda adapter, evaluation: False)
        return begun

    return use


def mixed_stream():
    """Batches that select somebody, between ones so dull that they select nobody."""
    batches = small_stream(6, 8)
    return [x if i % 3 < 2 else torch.zeros_like(x) + x.mean() for i, x in enumerate(batches)]


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("method", ["tent", "eata", "sar", "deyo", "dualtta", "dualtta_safe"])
def test_going_ahead_changes_no_result(method, norm, hasty):
    options = LOOSE.get(method, {})
    runs = []
    for on in (False, True):
        begun = hasty(on)
        adapter = dualtta.adapt(small_net(norm), method, lr=1e-2, speed="naive", **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dualtta.CollapseWarning)
            runs.append((adapter, run(adapter, mixed_stream())))
    (patient, steps), (adapter, others) = runs
    assert any(begun)
    # a backward for nobody was one: it is counted
    assert all(same_step(a, dataclasses.replace(b, backwards=a.backwards)) for a, b in zip(steps, others, strict=True))
    assert all(torch.equal(value, adapter.weights.values()[name]) for name, value in patient.weights.values().items())
    assert all(torch.equal(v, adapter._optimizer.velocity[name]) for name, v in patient._optimizer.velocity.items())


def test_an_update_for_nobody_is_taken_back(hasty):
    begun = hasty(True)
    adapter = dualtta.adapt(small_net("batch"), "dualtta", tau_sa=0.05, lr=0.1, speed="naive")
    first, dull, _ = run(adapter, mixed_stream()[1:4])
    assert first.updated
    assert begun[1]
    assert not dull.updated
    assert not dull.skipped


class Spoilt(nn.Module):
    """A net that gives NaN for the last sample where it is told to; methods that select others do not see it."""

    def __init__(self):
        super().__init__()
        self.net, self.spoil = small_net("batch"), False

    def forward(self, x):
        logits = self.net(x)
        return torch.cat([logits[:-1], logits[-1:] * torch.nan]) if self.spoil else logits


def test_what_is_not_finite_is_skipped_also_where_it_is_not_selected(hasty):
    hasty(True)
    adapter = dualtta.adapt(Spoilt(), "dualtta", tau_sa=0.05, lr=0.1, speed="naive")
    batches = small_stream(2, 8)
    assert adapter.step(batches[0]).updated
    before = adapter.weights.values()
    adapter.model.spoil = True
    step = adapter.step(batches[1])
    assert step.skipped
    assert not step.updated
    assert all(torch.equal(value, before[name]) for name, value in adapter.weights.values().items())
