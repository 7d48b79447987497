from pathlib import Path

import pytest
import torch
import torch._dynamo.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dualtta
from dualtta.conformance.methods import check_case, read_cases
from dualtta.model.shortcuts import agree
from dualtta.probe import WeightedEntropy, entropy
from dualtta.speed import SPEEDS, Speed, find_speed
from dualtta.testing import OperatorCounter, run, same, same_step, small_net, small_stream


class Centred(nn.Module):
    """Samples that influence each other, by no BatchNorm."""

    def forward(self, x):
        return x - 0.5 * x.mean(0, keepdim=True)


SHARED = Path(__file__).parents[2] / "shared" / "conformance"


@pytest.mark.parametrize("norm", ["batch", "group", "layer", "instance"])
@pytest.mark.parametrize("method", [name for name in dualtta.METHODS if name not in ("source", "norm")])
def test_shortcuts_change_no_result(method, norm, both, assert_same, doubles):
    naive, quick = both(small_net(norm), method, doubles())
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)
    assert quick[0].net.forwarded > 0


@pytest.mark.parametrize("statistics", ["source", "batch", 0.3, 0.0])
@pytest.mark.parametrize("method", ["dualtta", "deyo", "sar"])
def test_shortcuts_change_no_result_whatever_batchnorm_normalises_by(method, statistics, both, assert_same, doubles):
    assert_same(*both(small_net("batch"), method, doubles(), statistics=statistics))


@given(
    seed=st.integers(0, 99),
    size=st.integers(1, 9),
    tau_sa=st.sampled_from([-0.2, 0.0, 0.1, 0.4, 0.9]),
    tau_sp=st.sampled_from([-0.2, 0.0, 0.1, 0.4, 0.9]),
    drop=st.sampled_from(["absolute", "relative"]),
    reduction=st.sampled_from(["sum", "mean"]),
    filters=st.tuples(st.booleans(), st.booleans()),
    lam=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=60, deadline=None)
def test_pruning_changes_no_result_at_any_thresholds(
    seed, size, tau_sa, tau_sp, drop, reduction, filters, lam, both, assert_same, doubles
):
    method = {"tau_sa": tau_sa, "tau_sp": tau_sp, "drop": drop, "reduction": reduction, "lam": lam}
    switches = dict(zip(("filter_sa", "filter_sp"), filters, strict=True))
    assert_same(*both(small_net(), "dualtta", doubles(3, size, seed), **method, **switches))


def test_a_stream_of_single_samples_is_the_same_and_its_running_deviation_too(both, assert_same, doubles):
    xs = [x[None] for x in doubles(1, 12)[0]]
    naive, quick = both(small_net(), "dualtta", xs, tau_sa=0.7, tau_sp=0.7)
    assert_same(naive, quick)
    assert quick[0].memory["preserve.count"] == len(xs)  # whoever needed no view is counted all the same
    assert 0 < sum(bool(step.drops["preserve"].isnan()) for step in quick[1]) < len(xs)


def test_a_drop_that_cannot_matter_is_not_looked_at(doubles):
    x = doubles(1, 32)[0]
    step = dualtta.adapt(small_net().double(), "dualtta").step(x)
    confidence = step.logits.softmax(1).amax(1)
    skipped = confidence <= 0.4
    assert 0 < skipped.sum() < len(x)
    assert torch.equal(step.drops["alter"].isnan(), skipped)
    needed = step.plus | step.minus
    assert not step.drops["preserve"][needed].isnan().any()
    preserved = (~step.drops["preserve"].isnan()).sum()
    assert step.forwards == len(x) + (~skipped).sum() + preserved + needed.sum()
    assert step.backwards == needed.sum()


def test_on_batchnorm_every_sample_is_forwarded_three_times_and_goes_back_once(doubles, loose):
    x = doubles(1, 16)[0]
    step = dualtta.adapt(small_net("batch").double(), "dualtta", **loose["dualtta"]).step(x)
    assert step.updated
    assert step.forwards == 3 * len(x)
    assert step.backwards == len(x)


def test_nobody_selected_means_no_backward():
    step = dualtta.adapt(small_net(), "dualtta", tau_sa=1.0, tau_sp=1.0).step(small_stream()[0])
    assert (step.updated, step.backwards) == (False, 0)


def test_sar_looks_again_at_the_selected_alone():
    x = small_stream()[0]
    step = dualtta.adapt(small_net(), "sar", ent0=0.2).step(x)
    selected = int(step.plus.sum())
    assert 0 < selected < len(x)
    assert step.forwards == len(x) + 2 * selected
    assert step.backwards == 2 * selected


def test_where_most_are_selected_the_first_forward_keeps_its_graph():
    adapter = dualtta.adapt(small_net(), "eata", ent0=0.9, epsilon=1.0)
    first, second = run(adapter, small_stream(2))
    assert first.plus.float().mean() > 0.5
    assert first.forwards == len(first.plus) + first.plus.sum()
    assert second.forwards == second.backwards == len(second.plus)


@pytest.mark.parametrize("method", [name for name in dualtta.METHODS if name not in ("source", "norm")])
@pytest.mark.parametrize("micro", [1, 5, 64])
def test_micro_batches_give_the_same_update(method, micro, both, assert_same, doubles):
    naive, quick = both(small_net(), method, doubles(3), speed=Speed(micro_batch=micro))
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)


def test_micro_batches_never_forward_more_at_once(loose):
    sizes = []
    adapter = dualtta.adapt(small_net(), "dualtta", speed=Speed(micro_batch=4), **loose["dualtta"])
    adapter.step(small_stream()[0])  # the first batch is examined whole
    handle = adapter.model.register_forward_hook(lambda module, args, output: sizes.append(len(output)))
    adapter.step(small_stream()[1])
    handle.remove()
    assert max(sizes) == 4


def test_micro_batches_are_refused_where_samples_influence_each_other():
    with pytest.raises(ValueError, match="BatchNorm"):
        dualtta.adapt(small_net("batch"), "tent", speed=Speed(micro_batch=4))
    adapter = dualtta.adapt(nn.Sequential(Centred(), small_net()), "tent", speed=Speed(micro_batch=4))
    with pytest.raises(ValueError, match="influence"):
        adapter.step(small_stream()[0])


def test_an_objective_of_another_package_may_use_the_gradient_of_all_samples(both, assert_same, doubles):
    from dataclasses import dataclass

    from dualtta.methods.eata import EATA

    @dataclass(frozen=True, kw_only=True)
    class Diverse(EATA):
        def objective(self, probe, selection, memory):
            mean = probe.live_logits.softmax(1).mean(0)
            return (mean * mean.log()).sum() + super().objective(probe, selection, memory)

    assert_same(*both(small_net(), Diverse(ent0=0.9), doubles()))


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"no golden vectors at {SHARED}")
@pytest.mark.parametrize("speed", ["naive", "safe"])
@pytest.mark.slow
def test_golden_vectors_pass_at_every_speed(speed, monkeypatch):
    folder = SHARED / "methods"
    monkeypatch.setitem(SPEEDS, "safe", SPEEDS[speed])
    verdicts = [check_case(folder, case) for case in read_cases(folder / "cases.json")]
    assert len(verdicts) > 10
    assert all(verdict.ok for verdict in verdicts), [v for v in verdicts if not v.ok]


def test_a_saved_state_knows_how_the_next_forward_is_made(tmp_path):
    xs = small_stream(4)
    options = {"ent0": 0.9, "epsilon": 1.0}
    adapter, other = (dualtta.adapt(small_net(), "eata", **options) for _ in range(2))
    run(adapter, xs[:2])
    adapter.save(tmp_path / "state")
    other.load(tmp_path / "state")
    assert all(map(same_step, run(adapter, xs[2:]), run(other, xs[2:])))
    assert same(adapter.weights.values(), other.weights.values())


def test_agreement_is_up_to_rounding():
    a = torch.randn(8, 10, dtype=torch.float64)
    assert agree(a, a + 1e-12)
    assert not agree(a, a + 1e-4)
    assert agree(a.float(), a.float() * (1 + 1e-6))
    assert not agree(a, a[:4])
    masked = torch.cat([a, torch.full((8, 1), -torch.inf)], 1)
    assert agree(masked, masked)
    assert not agree(a, a * torch.nan)


def test_a_speed_is_a_word_or_its_parts():
    assert find_speed("fast", cuda=False) == find_speed("half", cuda=False) == SPEEDS["safe"]
    assert find_speed("fast", cuda=True).compile
    with pytest.raises(ValueError, match="no speed 'quick'"):
        dualtta.adapt(small_net(), speed="quick")
    with pytest.raises(ValueError, match="micro_batch"):
        Speed(micro_batch=0)
    with pytest.raises(ValueError, match="precision"):
        Speed(precision="fp8")


EVERYBODY = {"tau_sa": -1.0, "tau_sp": 1.0}  # is selected
MOST = {  # operators: a few more than there are
    "source": (35, {}),
    "tent": (60, {}),
    "dualtta": (135, EVERYBODY),
    "dualtta_safe": (200, EVERYBODY | {"guard": False, "crowd": 100.0, "steady": 10.0}),
}


@pytest.mark.parametrize("method", MOST)
def test_a_step_on_a_single_sample_asks_little_of_torch_beyond_its_passes(method):
    most, settings = MOST[method]
    norm, head = nn.GroupNorm(2, 8), nn.Linear(8, 10)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
    adapter = dualtta.adapt(net, method, **settings)
    for x in torch.randn(3, 1, 3, 8, 8):  # who was selected before decides how a batch is forwarded
        with OperatorCounter() as asked:
            step = adapter.step(x)
    with OperatorCounter() as needed:
        for number in range(step.forwards):
            logits = adapter.model(x)
            if number < step.backwards:
                torch.autograd.grad(logits.sum(), list(adapter.weights.params.values()))
    assert step.updated == (method != "source")
    assert asked.calls - needed.calls <= most


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_the_entropy_by_hand_is_the_one_by_autograd_to_the_bit(dtype):
    torch.manual_seed(0)
    logits = (5 * torch.randn(6, 7, dtype=dtype)).requires_grad_()
    masked = torch.cat([logits, logits.new_full((6, 1), -torch.inf)], 1)
    coefficients, selected = torch.randn(6, dtype=dtype), torch.tensor([True, True, False, True, False, True])
    log_p = masked.log_softmax(1)
    summed = (coefficients * torch.where(selected, entropy(log_p), 0.0)).sum()
    known = log_p.detach(), log_p.detach().exp(), entropy(log_p.detach())
    by_hand = WeightedEntropy.apply(masked, *known, coefficients, selected)
    assert torch.equal(by_hand, summed)
    for times in (1.0, 0.3):
        (wanted,), (found,) = (torch.autograd.grad(times * loss, logits, retain_graph=True) for loss in (summed, by_hand))
        assert torch.equal(found, wanted)
        assert wanted.any(1).equal(selected)
