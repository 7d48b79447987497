"""DualTTA's variants: as printed where nothing is switched, each switch by its equation, the same with shortcuts."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.functional import cosine_similarity

import dualtta
from dualtta.methods import make_method
from dualtta.optim import Evaluation
from dualtta.testing import CHECKS, check_method, run, same, small_net, small_stream

LOOSE = {"tau_sa": 0.05, "tau_sp": 0.1}
SWITCHES = {
    "relative": {"drop": "relative"},
    "lower": {"tau_minus": 0.02},
    "quantile": {"breaks_by": "quantile", "top": 0.3},
    "flip": {"breaks_by": "flip"},
    "never": {"breaks_by": "never"},
    "bounded": {"breaks_by": "flip", "minus_above": 0.1, "minus_below": 0.9, "plus_below": 0.8},
    "redundancy": {"epsilon": 0.9},
    "marginal": {"marginal": 2.0},
    "crowd": {"crowd": 2.0},
    "running marginal": {"marginal": 2.0, "marginal_past": 0.9},
    "balance": {"balance": 1.0},
    "recovery": {"recovery": 1.0},
    "anchor": {"anchor": 0.1},
    "cautious": {"cautious": 1.0},
    "mean": {"reduction": "mean", "lam": 1.0},
    "backed": {"reduction": "backed"},
    "no altering filter": {"filter_sa": False, "tau_minus": 0.02},
    "no filter": {"filter_sa": False, "filter_sp": False},
    "all": {
        "breaks_by": "quantile", "epsilon": 0.95, "marginal": 1.0, "marginal_past": 0.5, "balance": 0.5, "recovery": 0.01,
        "anchor": 0.01, "cautious": 1.0, "reduction": "mean",
    },
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::dualtta.CollapseWarning")


def adapter_of(norm="group", **switches):
    return dualtta.adapt(small_net(norm), "dual_variant", **{"lr": 0.01, **LOOSE, **switches})


@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
@pytest.mark.parametrize(
    "change", [{}, {"drop": "relative"}, {"filter_sa": False}, {"filter_sp": False}, {"reduction": "mean"}]
)
def test_with_nothing_switched_it_is_the_method_as_printed(norm, change):
    printed = dualtta.adapt(small_net(norm), "dualtta", lr=0.01, **LOOSE, **{"reduction": "sum", **change})
    variant = adapter_of(norm, **change)
    for a, b in zip(run(printed, small_stream()), run(variant, small_stream()), strict=True):
        assert torch.equal(a.plus, b.plus)
        assert torch.equal(a.minus, b.minus)
        assert torch.equal(a.weight, b.weight)
        assert a.loss == b.loss
    assert same(printed.weights.values(), variant.weights.values())


@pytest.mark.parametrize("name", SWITCHES)
@pytest.mark.slow
def test_every_switch_passes_the_public_checks(name):
    check_method(make_method("dual_variant", **LOOSE, **SWITCHES[name]), small_net("group"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_all_of_them_together_pass_on_batch_statistics_too(check):
    check(make_method("dual_variant", **LOOSE, **SWITCHES["all"]), small_net("batch"), small_stream())


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("name", SWITCHES)
def test_shortcuts_change_no_result(name, norm, both, assert_same, doubles):
    naive, quick = both(small_net(norm), "dual_variant", doubles(), **LOOSE, **SWITCHES[name])
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)


@pytest.mark.parametrize("name", SWITCHES)
def test_single_samples_are_the_same_with_shortcuts_and_adapt(name, both, assert_same, doubles):
    xs = [x[None] for x in doubles(1, 12)[0]]
    naive, quick = both(small_net(), "dual_variant", xs, **LOOSE, **SWITCHES[name])
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)


@given(
    seed=st.integers(0, 99),
    size=st.integers(1, 9),
    taus=st.tuples(*[st.sampled_from([-0.2, 0.0, 0.1, 0.4, 0.9])] * 3),
    drop=st.sampled_from(["absolute", "relative"]),
    breaks_by=st.sampled_from(["drop", "quantile", "flip", "never"]),
    filters=st.tuples(st.booleans(), st.booleans()),
    bounds=st.sampled_from(
        [{}, {"minus_above": 0.3}, {"minus_below": 0.5, "plus_below": 0.5}, {"epsilon": 0.8, "balance": 1.0}]
    ),
)
@settings(max_examples=40, deadline=None)
def test_pruning_changes_no_result_whatever_d_minus_is(
    seed, size, taus, drop, breaks_by, filters, bounds, both, assert_same, doubles
):
    named = dict(zip(("tau_sa", "tau_sp", "tau_minus"), taus, strict=True))
    switches = dict(zip(("filter_sa", "filter_sp"), filters, strict=True))
    options = {**named, **switches, **bounds, "drop": drop, "breaks_by": breaks_by}
    assert_same(*both(small_net(), "dual_variant", doubles(3, size, seed), **options))


def test_flip_selects_whom_restyling_moves_to_another_class():
    adapter = adapter_of(breaks_by="flip", lr=1e-6)
    seen = 0
    for x in small_stream(6):
        step = adapter.step(x)
        looked = ~step.drops["preserve"].isnan()
        stays = step.drops["alter"] < 0.05
        assert not (step.minus & ~(looked & stays)).any()
        # whoever keeps more than half cannot have flipped, whoever lost more than half of the room between must have
        kept = step.logits.softmax(1).amax(1) - step.drops["preserve"]
        assert not (step.minus & (kept > 0.5)).any()
        seen += int(step.minus.sum())
    assert seen


def test_quantile_takes_the_top_share_of_the_stream():
    adapter = adapter_of(breaks_by="quantile", top=0.25, filter_sa=False, tau_sp=-1.0, lr=1e-6)  # nobody is in D+
    drops = torch.zeros(0)
    for x in small_stream(8):
        step = adapter.step(x)
        drops = torch.cat([drops, step.drops["preserve"]])
        assert torch.equal(step.minus, step.drops["preserve"] > drops.quantile(0.75))
    torch.testing.assert_close(adapter.memory["drops"], drops)


def test_the_window_of_drops_does_not_grow_for_ever():
    adapter = adapter_of(breaks_by="quantile")
    run(adapter, small_stream(40))
    assert len(adapter.memory["drops"]) == 512


def test_entropy_bounds_bound():
    adapter = adapter_of(breaks_by="flip", minus_above=0.3, minus_below=0.7, plus_below=0.2, lr=1e-6)
    took = [0, 0]
    for x in small_stream(8):
        step = adapter.step(x)
        p = step.logits.softmax(1)
        share = -(p * p.log()).sum(1) / math.log(10)
        assert (share[step.plus] < 0.2).all()
        assert ((share[step.minus] > 0.3) & (share[step.minus] < 0.7)).all()
        took = [took[0] + int(step.plus.sum()), took[1] + int(step.minus.sum())]
    assert all(took)


def test_redundancy_filter_leaves_out_what_is_like_the_average_of_d_plus():
    adapter, plain = adapter_of(epsilon=0.6, lr=1e-6), adapter_of(lr=1e-6)
    average, left_out = None, 0
    for x in small_stream(6):
        step, free = adapter.step(x), plain.step(x)
        p = step.logits.softmax(1)
        novel = torch.ones(16, dtype=torch.bool) if average is None else cosine_similarity(p, average[None]).abs() < 0.6
        assert torch.equal(step.plus, free.plus & novel)
        left_out += int((free.plus & ~novel).sum())
        if step.plus.any():
            mean = p[step.plus].mean(0)
            average = mean if average is None else 0.9 * average + 0.1 * mean
    assert left_out
    torch.testing.assert_close(adapter.memory["average"], average, rtol=1e-4, atol=1e-6)


def test_marginal_entropy_is_in_the_loss():
    x = small_stream()[0]
    plain, weighed = adapter_of().step(x), adapter_of(marginal=3.0).step(x)
    mean = plain.logits.softmax(1).mean(0)
    torch.testing.assert_close(weighed.loss, plain.loss + 3.0 * len(x) * (mean * mean.log()).sum())
    plain, weighed = adapter_of(reduction="mean").step(x), adapter_of(marginal=3.0, reduction="mean").step(x)
    torch.testing.assert_close(weighed.loss, plain.loss + 3.0 * (mean * mean.log()).sum())


def test_the_running_marginal_counts_the_past():
    first, second = small_stream()[:2]
    adapter = adapter_of(marginal=1.0, marginal_past=0.9, lr=1e-9, reduction="mean")
    plain = adapter_of(lr=1e-9, reduction="mean")
    a, b = adapter.step(first), adapter.step(second)
    plain.step(first)
    p = 0.9 * torch.full((10,), 0.1) + 0.1 * a.logits.softmax(1).mean(0)  # equal shares before the first batch
    p = 0.9 * p + 0.1 * b.logits.softmax(1).mean(0)
    torch.testing.assert_close(b.loss, plain.step(second).loss + 10 * (p * p.log()).sum(), rtol=1e-4, atol=1e-4)


def test_the_crowd_is_counted_in_equal_shares():
    xs = small_stream()
    for a, b in zip(run(adapter_of(crowd=2.0), xs), run(adapter_of(epsilon=2.0 / 10**0.5), xs), strict=True):
        assert torch.equal(a.plus, b.plus)


def test_rare_classes_count_more_and_never_without_bound():
    first, second = small_stream()[:2]
    adapter, plain = adapter_of(balance=1.0, lr=1e-9), adapter_of(lr=1e-9)
    q = adapter.step(first).logits.softmax(1).mean(0)
    plain.step(first)
    step, free = adapter.step(second), plain.step(second)
    factor = (1 / (10 * q[step.logits.argmax(1)])).clamp_max(10.0)
    torch.testing.assert_close(step.weight, free.weight * factor, rtol=1e-3, atol=1e-5)
    assert factor.max() > 1.5 * factor.min()


def test_recovery_goes_back_to_the_source():
    adapter = adapter_of(recovery=100.0)
    step = next(step for step in run(adapter, small_stream()) if step.updated)
    assert step.recovered
    assert same(adapter.weights.values(), adapter.weights.source)
    assert adapter_of(recovery=1e-9).step(small_stream()[0]).recovered is False


def test_the_anchor_goes_its_share_of_the_way_back():
    x = small_stream()[0]
    free, tied = adapter_of(), adapter_of(anchor=0.25)
    assert free.step(x).updated
    assert tied.step(x).updated
    for name, value in free.weights.values().items():
        source = free.weights.source[name]
        torch.testing.assert_close(tied.weights.values()[name], value + 0.25 * (source - value))
    whole = adapter_of(anchor=1.0)
    run(whole, small_stream())
    assert same(whole.weights.values(), whole.weights.source)


@pytest.mark.parametrize(("reduction", "bound"), [("sum", (1 - 0.03) / 0.03), ("mean", None)])
def test_what_leans_goes_no_further_than_a_step_by_its_share_however_long_the_stream(reduction, bound):
    adapter = adapter_of(anchor=None, reduction=reduction, lr=1e-3, momentum=0.0)
    weights = adapter.weights
    for _ in range(400):  # times the same step
        uphill = sum(p.sum() for p in weights.params.values())
        with torch.no_grad():
            adapter.method.update.apply(Evaluation(SimpleNamespace(coupled=True), None, uphill), None, adapter._optimizer)
    gone = max(float((value - weights.source[name]).abs().max()) for name, value in weights.values().items())
    assert gone == pytest.approx(1e-3 * (400 if bound is None else bound), rel=1e-3)


def test_caution_makes_the_loss_smaller_by_the_confidence():
    x = small_stream()[0]
    plain, careful = adapter_of().step(x), adapter_of(cautious=2.0).step(x)
    torch.testing.assert_close(careful.loss, plain.loss * plain.logits.softmax(1).amax(1).mean() ** 2)


def wide_net(classes):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes)
    )


@pytest.mark.parametrize("classes", [2, 400])
def test_a_step_is_as_large_as_there_are_samples_for_the_classes(classes):
    torch.manual_seed(0)
    net = wide_net(classes)
    x, open_to_all = torch.randn(16, 3, 8, 8), {"tau_sa": -1.0, "tau_sp": 1.0, "filter_sa": False, "filter_sp": False}
    summed, backed = (
        dualtta.adapt(copy.deepcopy(net), "dual_variant", reduction=reduction, **open_to_all).step(x)
        for reduction in ("sum", "backed")
    )
    size = int(summed.plus.sum())
    assert size == 16
    torch.testing.assert_close(backed.loss, summed.loss * min(1.0, 10 * size / classes))


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_backed_steps_are_the_mean_where_samples_are_independent(norm):
    x = small_stream()[0]
    assert adapter_of(norm, reduction="backed").step(x).loss == adapter_of(norm, reduction="mean").step(x).loss


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"breaks_by": "drops"}, "breaks_by must be 'drop' or 'quantile' or 'flip' or 'never'"),
        ({"anchor": 1.5}, "anchor must be a number between 0 and 1"),
        ({"epsilon": -1}, "epsilon must be a number between 0 and 1"),
        ({"marginl": 1.0}, "did you mean 'marginal'"),
    ],
)
def test_bad_settings_are_refused_with_the_way_out(wrong, says):
    with pytest.raises(ValueError, match=says):
        dualtta.adapt(small_net(), "dual_variant", **wrong)
