"""The default of `adapt`: DualTTA that may be left switched on."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import dualtta
from dualtta.studies.dual_variant import PRIOR, DualVariant
from dualtta.testing import same, small_net, small_stream

LOOSE = {"tau_sa": -1.0, "tau_sp": 1.0, "lr": 1e-3}  # who is selected is then for the guards to say
FREE = {"crowd": 100.0, "steady": 10.0}  # guards that hold nobody back


def test_it_is_what_adapt_takes_unless_told():
    adapter = dualtta.adapt(small_net())
    assert type(adapter.method) is type(dualtta.adapt(small_net(), "dualtta_safe").method)
    assert isinstance(dualtta.adapt(small_net(), "dualtta").method, dualtta.METHODS["dualtta"])


@pytest.mark.parametrize(
    ("norm", "step"),
    [
        ("batch", {"reduction": "sum", "cautious": 1.0, "anchor": 0.03, "statistics": 0.3}),
        ("group", {"reduction": "mean"}),
        ("layer", {"reduction": "mean"}),
    ],
)
def test_it_is_the_variant_with_a_cautious_leaning_sum_and_a_blend_on_batchnorm_and_a_mean_elsewhere(norm, step):
    safe = dualtta.adapt(small_net(norm), **FREE, **LOOSE)
    variant = dualtta.adapt(small_net(norm), DualVariant, **FREE, **step, **LOOSE)
    for x in small_stream():
        a, b = safe.step(x), variant.step(x)
        assert a.updated
        assert torch.equal(a.plus, b.plus)
        assert torch.equal(a.loss, b.loss)
    assert same(safe.weights.values(), variant.weights.values())


@pytest.mark.parametrize(
    ("whole", "back"),
    [
        (FREE, {"statistics": "batch"}),
        (FREE, {"cautious": 0}),
        (FREE, {"anchor": 0}),
        (FREE, {"reduction": "mean"}),
        ({**FREE, "crowd": 0.9}, {"crowd": None}),
        ({**FREE, "steady": 0.0}, {"steady": None}),
    ],
)
def test_every_part_of_it_can_be_set_back(whole, back):
    one, other = (dualtta.adapt(small_net("batch"), **{**LOOSE, **whole, **some}) for some in ({}, back))
    for x in small_stream():
        one.step(x)
        other.step(x)
    assert not same(other.weights.values(), other.weights.source)
    assert not same(one.weights.values(), other.weights.values())


def test_its_guards_are_what_is_written():
    method = dualtta.adapt(small_net("batch")).method
    assert (method.crowd, method.steady, method.cautious, method.anchor, method.statistics) == (1.3, 0.03, None, None, 0.3)


class Sorted(nn.Module):
    """A net whose predictions lean to one class as far as it is told."""

    lean = 0.0

    def __init__(self):
        super().__init__()
        self.net = small_net("group")

    def forward(self, x):
        logits = self.net(x)
        return logits + Sorted.lean * nn.functional.one_hot(torch.tensor(3), logits.shape[1])


def test_while_one_class_is_all_there_is_nothing_is_learnt_and_what_was_is_given_up(monkeypatch):
    adapter = dualtta.adapt(Sorted(), crowd=100.0, steady=0.3, **LOOSE)
    xs = small_stream()
    steps = [adapter.step(x) for x in xs]
    assert any(step.updated for step in steps)
    assert not same(adapter.weights.values(), adapter.weights.source)
    seen = adapter.memory["seen"]
    monkeypatch.setattr(Sorted, "lean", 50.0)
    steps = [adapter.step(x) for x in [*xs, *xs, *xs]]
    given_up = next(number for number, step in enumerate(steps) if step.recovered)
    assert not any(step.updated or step.recovered for step in steps[given_up + 1 :])  # it is at the source already
    assert same(adapter.weights.values(), adapter.weights.source)
    assert adapter.memory["seen"] > seen  # what is usual outlives the return


def test_calm_is_near_the_usual_or_near_equal_shares():
    method = DualVariant(steady=0.03)
    equal, biased = torch.full((10,), 0.1), torch.eye(10)[0] * 0.5 + 0.05
    assert method.calm(equal, biased)  # from a biased start to equal shares: healthy
    assert method.calm(biased, biased)
    assert not method.calm(biased, equal)
    assert not method.calm(torch.eye(10)[1], biased)


def test_what_is_usual_begins_at_equal_shares_and_counts_samples_not_batches():
    probs = torch.eye(4)[[0, 0, 0, 1]]
    method = DualVariant(steady=0.03)
    recent, usual, seen = method.mixtures(SimpleNamespace(probs=probs, mean=probs.mean(0)), {})
    assert torch.equal(recent, torch.tensor([0.75, 0.25, 0, 0]))
    assert torch.equal(usual, torch.full((4,), 0.25))
    assert seen == PRIOR


def test_both_reasons_to_return_to_the_source_count():
    method, equal = DualVariant(steady=0.03, recovery=0.2), torch.full((4,), 0.25)
    calm = {"average": equal, "recent": equal, "usual": equal}
    assert not method.lost({**calm, "ema": torch.tensor(0.5)})
    assert method.lost({**calm, "ema": torch.tensor(0.1)})
    assert method.lost({**calm, "recent": torch.eye(4)[0], "ema": torch.tensor(0.5)})
