"""The default of `adapt`: its safeguards, and states that earlier versions saved."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import dualtta
from dualtta import state
from dualtta.methods.dualtta_safe import PRIOR, DualTTASafe
from dualtta.testing import run, same, same_step, small_net, small_stream

LOOSE = {"guard": False, "tau_sa": -1.0, "tau_sp": 1.0, "lr": 1e-3}  # only the safeguards select
FREE = {"crowd": 100.0, "steady": 10.0}  # safeguards that leave nothing out


def test_it_is_the_default_of_adapt():
    adapter = dualtta.adapt(small_net())
    assert type(adapter.method) is type(dualtta.adapt(small_net(), "dualtta_safe").method)
    assert isinstance(dualtta.adapt(small_net(), "dualtta").method, dualtta.METHODS["dualtta"])


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


def test_its_safeguards_are_as_documented():
    method = dualtta.adapt(small_net("batch")).method
    assert (method.crowd, method.steady, method.cautious, method.anchor, method.statistics) == (1.3, 0.03, None, None, 0.3)


class Sorted(nn.Module):
    """A net with a bias `lean` towards class 3."""

    lean = 0.0

    def __init__(self):
        super().__init__()
        self.net = small_net("group")

    def forward(self, x):
        logits = self.net(x)
        return logits + Sorted.lean * nn.functional.one_hot(torch.tensor(3), logits.shape[1])


def test_under_label_shift_no_update_is_made_and_the_model_returns_to_the_source(monkeypatch):
    adapter = dualtta.adapt(Sorted(), crowd=100.0, steady=0.3, **LOOSE)
    xs = small_stream()
    steps = [adapter.step(x) for x in xs]
    assert any(step.updated for step in steps)
    assert not same(adapter.weights.values(), adapter.weights.source)
    seen = adapter.memory["seen"]
    monkeypatch.setattr(Sorted, "lean", 50.0)
    steps = [adapter.step(x) for x in [*xs, *xs, *xs]]
    given_up = next(number for number, step in enumerate(steps) if step.recovered)
    assert not any(step.updated or step.recovered for step in steps[given_up + 1 :])
    assert same(adapter.weights.values(), adapter.weights.source)
    assert adapter.memory["seen"] > seen  # survives the return


def test_predictions_are_stable_near_the_usual_ones_or_near_equal_shares():
    method = DualTTASafe(steady=0.03)
    equal, biased = torch.full((10,), 0.1), torch.eye(10)[0] * 0.5 + 0.05
    assert method.stable(equal, biased)  # from a biased start to equal shares
    assert method.stable(biased, biased)
    assert not method.stable(biased, equal)
    assert not method.stable(torch.eye(10)[1], biased)


def test_usual_predictions_start_uniform_and_count_samples_rather_than_batches():
    probs = torch.eye(4)[[0, 0, 0, 1]]
    recent, usual, seen = DualTTASafe().running_means(SimpleNamespace(probs=probs, mean=probs.mean(0)), {})
    assert torch.equal(recent, torch.tensor([0.75, 0.25, 0, 0]))
    assert torch.equal(usual, torch.full((4,), 0.25))
    assert seen == PRIOR


def test_label_shift_returns_the_model_to_the_source_once_it_has_adapted():
    equal = torch.full((4,), 0.25)
    memory = {"average": equal, "recent": equal, "usual": equal}
    shifted = {**memory, "recent": torch.eye(4)[0]}
    assert not DualTTASafe().should_reset(memory)
    assert DualTTASafe().should_reset(shifted)
    assert not DualTTASafe(steady=None).should_reset(shifted)
    assert not DualTTASafe().should_reset({"recent": torch.eye(4)[0], "usual": equal})  # nothing adapted yet


def saved_by_an_earlier_version(path, **made):
    """The state of an adapter, with the settings in its header that its method had before, and these."""
    adapter = dualtta.adapt(small_net("batch"), **LOOSE)
    for x in small_stream():
        adapter.step(x)
    adapter.save(path)
    tensors, about = state.read(path, "dualtta-adapter")
    about["made"] |= {**DualTTASafe.retired, **made}
    state.write(path, "dualtta-adapter", tensors, {"made": about["made"], "counts": about["counts"]})
    return adapter


def test_states_with_settings_of_earlier_versions_load_while_these_are_at_their_defaults(tmp_path):
    saved = saved_by_an_earlier_version(tmp_path / "state")
    loaded = dualtta.adapt(small_net("batch"), **LOOSE)
    loaded.load(tmp_path / "state")
    assert all(map(same_step, run(loaded, small_stream()), run(saved, small_stream())))


@pytest.mark.parametrize(("setting", "value"), [("balance", 1.0), ("breaks_by", "flip"), ("filter_sa", False)])
def test_states_with_retired_settings_at_other_values_are_refused(setting, value, tmp_path):
    saved_by_an_earlier_version(tmp_path / "state", **{setting: value})
    loaded = dualtta.adapt(small_net("batch"), **LOOSE)
    with pytest.raises(ValueError, match=f"saved with {setting}={value!r}, a setting that dualtta_safe no longer has"):
        loaded.load(tmp_path / "state")
    assert same(loaded.weights.values(), loaded.weights.source)
