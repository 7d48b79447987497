"""An adapter under a guard never predicts by a model that was not shown to be better, and returns where it harms."""

import pytest
import torch

import dualtta
from dualtta import Guard
from dualtta.guard import LEARNING, PAUSED, TRIAL, Watch
from dualtta.guarded import GuardedAdapter
from dualtta.testing import same_step, small_net, small_stream

FREE = {"tau_sa": 0.05, "tau_sp": 0.1, "crowd": 100.0, "steady": 10.0}
NORMS = ("batch", "group", "layer")


def guarded(norm="batch", **settings):
    return dualtta.adapt(small_net(norm), **{**FREE, **settings})


def verdicts(monkeypatch, *found):
    """The verdicts of the next checks; no more after them."""
    left = list(found)
    monkeypatch.setattr(Watch, "verdict", lambda self, guard: left.pop(0) if left else "")


def test_the_default_is_guarded_and_other_methods_are_on_demand():
    assert isinstance(guarded(), GuardedAdapter)
    assert not isinstance(guarded(guard=False), GuardedAdapter)
    assert not isinstance(dualtta.adapt(small_net(), "tent"), GuardedAdapter)
    assert isinstance(dualtta.adapt(small_net(), "tent", guard=True), GuardedAdapter)
    assert guarded(guard=Guard(trial=7), budget=2).guard == Guard(trial=7, budget=2)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("size", [1, 2, 16])
def test_predictions_in_a_trial_are_the_source_models_whatever_the_rate(norm, size):
    adapter = guarded(norm, lr=1e3, guard=Guard(gain=1e9))  # statistics stay the source's
    source = dualtta.adapt(small_net(norm), "source")
    for x in small_stream(12, size):
        step = adapter.step(x)
        assert step.guard in ("trial", "rollback", "paused")
        assert torch.allclose(step.logits, source.predict(x), atol=1e-5)
        assert torch.allclose(adapter.predict(x), source.predict(x), atol=1e-5)


def test_after_a_benefit_the_adapted_model_predicts(monkeypatch):
    adapter = guarded("group", lr=0.1, guard=Guard(step=1.0))
    verdicts(monkeypatch, "benefit")
    *stream, last = small_stream(8, 64)
    states = [adapter.step(x).guard for x in stream]
    assert states[-1] == "learning"
    assert adapter.report()["passed"] == 1
    source = dualtta.adapt(small_net("group"), "source")
    assert not torch.allclose(adapter.predict(last), source.predict(last), atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_harm_returns_to_the_source_and_pauses_each_time_for_longer(norm, monkeypatch):
    adapter = guarded(norm, guard=Guard(pause=64, trial=10**6, gain=1e9))
    monkeypatch.setattr(Watch, "verdict", lambda self, guard: "harm")
    steps = [adapter.step(x) for x in small_stream(40)]
    states = [step.guard for step in steps]
    first = states.index("rollback")
    assert steps[first].recovered
    assert states[first + 1 : first + 5] == ["paused"] * 3 + ["trial"]
    assert not any(step.updated for step in steps[first : first + 3])
    assert states.count("rollback") >= 2
    second = states.index("rollback", first + 1)
    assert states[second + 1 : second + 9] == ["paused"] * min(8, len(states) - second - 1)


def test_a_rolled_back_batch_is_predicted_by_the_source(monkeypatch):
    adapter, source = guarded("group", lr=0.1, guard=Guard(step=1.0)), dualtta.adapt(small_net("group"), "source")
    verdicts(monkeypatch, "benefit", "", "harm")
    for x in small_stream(30, 64):
        step = adapter.step(x)
        if step.guard == "rollback":
            assert torch.allclose(step.logits, source.predict(x), atol=1e-6)
            return
    raise AssertionError("there was no rollback")


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("at", [3, 9])
def test_a_saved_state_goes_on_bit_for_bit(norm, at, tmp_path):
    settings = {"guard": Guard(trial=64, pause=32), "lr": 0.01}
    one, other = guarded(norm, **settings), guarded(norm, **settings)
    stream = small_stream(20)
    for x in stream[:at]:
        one.step(x)
    one.save(tmp_path / "state.safetensors")
    other.load(tmp_path / "state.safetensors")
    assert other.report() == one.report()
    for x in stream[at:]:
        assert same_step(one.step(x), other.step(x))


def test_a_state_of_another_guard_is_refused(tmp_path):
    one = guarded()
    one.save(tmp_path / "state.safetensors")
    with pytest.raises(ValueError, match="saved with guard="):
        guarded(guard=Guard(trial=7)).load(tmp_path / "state.safetensors")


def test_reset_forgets_all_that_the_guard_knows():
    adapter = guarded()
    stream = small_stream(8)
    first = [adapter.step(x) for x in stream]
    adapter.reset()
    assert all(map(same_step, first, [adapter.step(x) for x in stream]))


@pytest.mark.parametrize("budget", [1.1, 1.3, 1.5])
def test_a_budget_bounds_the_cost_and_leaves_checks_their_share(budget):
    adapter = guarded("group", budget=budget, lr=1e3, guard=Guard(step=1.0, trial=10**6))
    source = dualtta.adapt(small_net("group"), "source")
    for x in small_stream(200):
        step = adapter.step(x)
        assert step.guard == "rollback" or torch.allclose(step.logits, source.predict(x), atol=1e-5)  # the trial is not over
    report = adapter.report()
    assert report["forwards_per_sample"] < budget + 0.1
    assert report["checks"] >= 3
    assert guarded_cost() > 2.5


def guarded_cost():
    adapter = guarded("group")
    for x in small_stream(40):
        adapter.step(x)
    return adapter.report()["forwards_per_sample"]


def test_a_budget_without_a_guard_is_refused():
    with pytest.raises(ValueError, match="guard=True"):
        dualtta.adapt(small_net(), "tent", budget=2)


@pytest.mark.parametrize("value", ["yes", 3])
def test_a_guard_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="guard must be True, False or a Guard"):
        dualtta.adapt(small_net(), "tent", guard=value)


def test_statistics_given_by_the_user_are_kept():
    adapter = guarded(statistics="batch")
    for x in small_stream(6):
        adapter.step(x)
    assert adapter.net.statistics == "batch"
    assert adapter.report()["switches"] == 0


def test_statistics_change_where_predictions_become_more_informative(monkeypatch):
    adapter = guarded()
    monkeypatch.setattr(Watch, "compare", lambda self, source, blend, guard: not self.blended)
    x = small_stream(1)[0]
    step = adapter.step(x)
    assert step.guard == "statistics"
    blend = dualtta.adapt(small_net("batch"), "norm", statistics=0.3 * len(x) / 64)
    assert torch.allclose(step.logits, blend.predict(x), atol=1e-6)
    assert adapter.report()["statistics"] == 0.3


def test_a_shortcut_found_by_one_kind_of_statistics_is_not_used_by_another():
    adapter = guarded(speed="safe")
    x = small_stream(1)[0]
    adapter.step(x)  # by the source's statistics: samples are independent
    assert adapter.net.shortcuts(x.shape).independent
    adapter.net.use_statistics(0.3)
    assert not adapter.net.shortcuts(x.shape).independent


def test_no_state_is_shared_between_adapters():
    one, other = guarded(), guarded()
    one.step(small_stream(1)[0])
    assert other.watch == Watch()
    assert other.watch.mode == TRIAL != PAUSED != LEARNING


def test_inputs_that_are_no_images_are_predicted_as_by_the_source():
    net = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.LayerNorm(12), torch.nn.ReLU(), torch.nn.Linear(12, 4))
    adapter = dualtta.adapt(net, "tent", guard=True, lr=0.1)
    for _ in range(40):
        x = torch.randn(64, 6)
        assert torch.allclose(adapter(x), net(x), atol=1e-5)


def test_an_interrupted_comparison_leaves_the_statistics_as_they_were(monkeypatch):
    adapter, x = guarded(), small_stream(1)[0]
    before, calls = adapter.predict(x), []
    monkeypatch.setattr(adapter, "_control", lambda x: calls.append(1) or (_ for _ in ()).throw(KeyboardInterrupt))
    adapter.watch.blended = 0.0
    with pytest.raises(KeyboardInterrupt):
        adapter._control_by_other_statistics(x)
    monkeypatch.undo()
    assert torch.equal(adapter.predict(x), before)


def test_a_guarded_state_is_refused_without_a_guard(tmp_path):
    guarded().save(tmp_path / "state.safetensors")
    with pytest.raises(ValueError, match="saved with guard="):
        guarded(guard=False).load(tmp_path / "state.safetensors")


def test_a_batch_of_logits_that_are_not_finite_does_not_blind_the_guard():
    watch, fine = Watch(), torch.randn(64, 10)
    assert not watch.compare(fine, fine * torch.nan, Guard())
    assert not watch.surprised(fine * torch.nan)
    watch.compare(fine, fine, Guard())
    watch.surprised(fine)
    assert all(value.isfinite().all() for name, value in watch.tensors().items() if name != "unchecked")


def test_an_unchanged_model_never_passes_a_trial():
    adapter = guarded("group", lr=1e-12)
    for x in small_stream(60, 64):
        adapter.step(x)
    assert adapter.report()["passed"] == 0


def test_compiling_is_left_out_where_the_guard_chooses_statistics():
    speed = dualtta.Speed(compile=True, backend="eager")
    assert not guarded("batch", speed=speed).net.speed.compile
    assert guarded("group", speed=speed).net.speed.compile
