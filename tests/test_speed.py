import warnings
from pathlib import Path

import pytest
import torch
import torch._dynamo.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import dualtta
from dualtta.conformance import check_case, read_cases
from dualtta.models.shortcuts import Shortcuts, agree
from dualtta.speed import SPEEDS, Speed, find_speed
from dualtta.testing import run, same, same_step, small_net, small_stream

SHARED = Path(__file__).parents[2] / "shared" / "conformance"

METHODS = [name for name in dualtta.METHODS if name not in ("source", "norm")]
LOOSE = {
    "dualtta": {"tau_sa": 0.05, "tau_sp": 0.1},
    "deyo": {"tau_plpd": 0.0},
    "deyo_dual": {"tau_plpd": 0.05},
    "eata": {"epsilon": 0.9},
    "dual_variant": {"tau_sa": 0.05, "tau_sp": 0.1},
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


@pytest.mark.parametrize("norm", ["batch", "group", "layer", "instance"])
@pytest.mark.parametrize("method", METHODS)
def test_shortcuts_change_no_result(method, norm):
    naive, quick = both(small_net(norm), method, doubles())
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)
    assert quick[0].net.forwarded > 0


@pytest.mark.parametrize("statistics", ["source", "batch", 0.3, 0.0])
@pytest.mark.parametrize("method", ["dualtta", "deyo", "sar"])
def test_shortcuts_change_no_result_whatever_batchnorm_normalises_by(method, statistics):
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
def test_pruning_changes_no_result_at_any_thresholds(seed, size, tau_sa, tau_sp, drop, reduction, filters, lam):
    method = {"tau_sa": tau_sa, "tau_sp": tau_sp, "drop": drop, "reduction": reduction, "lam": lam}
    switches = dict(zip(("filter_sa", "filter_sp"), filters, strict=True))
    assert_same(*both(small_net(), "dualtta", doubles(3, size, seed), **method, **switches))


def test_a_stream_of_single_samples_is_the_same_and_its_running_deviation_too():
    xs = [x[None] for x in doubles(1, 12)[0]]
    naive, quick = both(small_net(), "dualtta", xs, tau_sa=0.7, tau_sp=0.7)
    assert_same(naive, quick)
    assert quick[0].memory["preserve.u.count"] == len(xs)  # whoever needed no view is counted all the same
    assert 0 < sum(bool(step.drops["preserve"].isnan()) for step in quick[1]) < len(xs)


def test_a_drop_that_cannot_matter_is_not_looked_at():
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


def test_on_batchnorm_every_sample_is_forwarded_three_times_and_goes_back_once():
    x = doubles(1, 16)[0]
    step = dualtta.adapt(small_net("batch").double(), "dualtta", **LOOSE["dualtta"]).step(x)
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


class Centred(nn.Module):
    """Samples that influence each other, by no BatchNorm."""

    def forward(self, x):
        return x - 0.5 * x.mean(0, keepdim=True)


class Skipping(nn.Module):
    """What the first stage saw reaches the head past the layer of the style view."""

    def __init__(self):
        super().__init__()
        self.net, self.short = small_net(), nn.Linear(3, 10)

    def forward(self, x):
        return self.net(x) + self.short(x.mean((2, 3)))


class Twice(nn.Module):
    """The layer of the style view is used twice."""

    def __init__(self):
        super().__init__()
        self.stem, self.same, self.head = (
            nn.Conv2d(3, 8, 3),
            nn.Sequential(nn.Conv2d(8, 8, 3), nn.GroupNorm(2, 8)),
            nn.Linear(8, 10),
        )

    def forward(self, x):
        return self.head(self.same(self.same(self.stem(x))).mean((2, 3)) * 9)


class Fixed(nn.Module):
    """Takes batches of twelve and no others."""

    def __init__(self):
        super().__init__()
        self.net = small_net()

    def forward(self, x):
        return self.net(x.reshape(12, 3, 16, 16))


class Noisy(nn.Module):
    """Never says the same twice."""

    def __init__(self):
        super().__init__()
        self.net, self.calls = small_net(), 0

    def forward(self, x):
        self.calls += 1
        return self.net(x + 0.1 * self.calls)


def overwriting():
    """The activation after the layer of the style view changes its output in place."""
    blocks = [nn.Sequential(nn.Conv2d(a, b, 3), nn.GroupNorm(2, b)) for a, b in ((3, 8), (8, 8), (8, 8), (8, 8))]
    layers = [part for block in blocks for part in (block, nn.ReLU(inplace=True))]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))


class Changed(nn.Module):
    """A net whose input, or what it says, is changed in a way of its own."""

    def __init__(self, before=lambda x: x, after=lambda logits: logits):
        super().__init__()
        self.net, self.before, self.after = small_net(), before, after

    def forward(self, x):
        return self.after(self.net(self.before(x)))


def centred(x, share=0.5):
    return x - share * x.mean(0, keepdim=True)


def halved_below_the_median(logits):
    top = logits.amax(1, keepdim=True)
    return torch.where(top > top.median(), logits, 0.5 * logits)


def loudest(x):
    """Everybody is turned down where somebody is too loud."""
    return 6 * x / x.abs().amax().clamp_min(6)


NETS = {
    "faintly centred": (lambda: Changed(lambda x: centred(x, 1e-6)), Shortcuts(independent=False, above=True), "net.1"),
    "centred when few": (
        lambda: Changed(lambda x: centred(x) if len(x) < 4 else x),
        Shortcuts(independent=False, above=True),
        "net.1",
    ),
    "centred when odd": (
        lambda: Changed(lambda x: centred(x) if len(x) % 2 else x),
        Shortcuts(independent=False, above=True),
        "net.1",
    ),
    "loudest": (lambda: Changed(loudest), Shortcuts(independent=False, above=True), "net.1"),
    "median": (lambda: Changed(after=halved_below_the_median), Shortcuts(independent=False, above=True), "net.1"),
    "squeezed": (lambda: Changed(after=torch.squeeze), Shortcuts(independent=False, above=True), "net.1"),
    "centred": (lambda: nn.Sequential(Centred(), small_net()), Shortcuts(independent=False, above=True), None),
    "skipping": (Skipping, Shortcuts(independent=True, above=False), "net.1"),
    "twice": (Twice, Shortcuts(independent=True, above=False), "same"),
    "fixed": (Fixed, Shortcuts(), None),
    "overwriting": (overwriting, Shortcuts(independent=True, above=True), "0"),
}


@pytest.mark.parametrize("kind", NETS)
def test_a_shortcut_that_is_not_exact_on_a_model_is_found_out_and_not_taken(kind):
    torch.manual_seed(0)
    make, found, layer = NETS[kind]
    model, xs = make(), doubles()
    nn.init.normal_([m for m in model.modules() if isinstance(m, nn.Linear)][-1].weight, std=1.0)
    naive, quick = both(model, "dualtta", xs, layer=layer, tau_sa=0.01, tau_sp=0.2)
    assert quick[0].net.shortcuts(xs[0].shape) == found
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)


def test_a_model_that_never_says_the_same_twice_is_not_forwarded_in_parts():
    adapter = dualtta.adapt(Noisy(), "dualtta")
    x = small_stream()[0]
    adapter.step(x)
    assert adapter.net.shortcuts(x.shape) == Shortcuts()


def test_a_model_that_draws_noise_draws_the_same_as_without_shortcuts():
    seen = []
    for speed in ("naive", "safe"):
        torch.manual_seed(0)
        adapter = dualtta.adapt(Changed(lambda x: x + 0.1 * torch.randn_like(x)), "dualtta", layer="net.1", speed=speed)
        seen.append(run(adapter, small_stream()))
    assert all(torch.equal(a.logits, b.logits) for a, b in zip(*seen, strict=True))


def test_a_larger_batch_than_those_examined_is_examined_again():
    adapter = dualtta.adapt(Changed(lambda x: centred(x) if len(x) > 16 else x), "dualtta", layer="net.1")
    found = []
    for size in (8, 32, 8):
        x = small_stream(1, size)[0]
        adapter.step(x)
        found.append(adapter.net.shortcuts(x.shape).independent)
    assert found == [True, False, False]


def test_samples_of_a_half_precision_model_that_feel_each_other_are_found_out():
    for dtype in (torch.bfloat16, torch.float16):
        found = []
        for share in (0.0, 0.05):
            adapter = dualtta.adapt(Changed(lambda x, share=share: centred(x, share)).to(dtype), "dualtta", layer="net.1")
            x = small_stream(1)[0].to(dtype)
            adapter.step(x)
            found.append(adapter.net.shortcuts(x.shape).independent)
        assert found == [True, False]


class Counting(nn.Module):
    """A net that counts its forwards, in a buffer."""

    def __init__(self):
        super().__init__()
        self.net = small_net()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.net(x)


def test_an_examination_that_is_interrupted_leaves_no_trace():
    class Interrupted(Counting):
        def forward(self, x):
            logits = super().forward(x)
            if self.seen == 3:
                raise KeyboardInterrupt
            return logits

    adapter = dualtta.adapt(Interrupted(), "eata")
    with pytest.raises(KeyboardInterrupt):
        adapter.step(small_stream(1)[0])
    assert adapter.model.seen == 0


def test_predictions_that_are_all_nan_are_skipped_at_every_speed():
    for speed in ("naive", "safe"):
        adapter = dualtta.adapt(Changed(after=lambda logits: logits * torch.nan), "eata", speed=speed)
        assert adapter.step(small_stream()[0]).skipped


def test_finding_out_leaves_no_trace():
    counts = [dualtta.adapt(Counting(), "eata", speed=speed) for speed in ("naive", "safe")]
    xs = small_stream(1)
    forwards = [adapter.step(xs[0]).forwards for adapter in counts]
    assert counts[0].model.seen == 1
    assert counts[1].model.seen == 2  # the selected again, and nothing of the examination
    assert forwards[0] == len(xs[0])


def test_a_shape_of_sample_that_is_new_is_examined_on_its_own():
    adapter = dualtta.adapt(small_net(), "dualtta")
    for side in (16, 24):
        x = small_stream(1, side=side)[0]
        assert adapter.net.shortcuts(x.shape) == Shortcuts()
        adapter.step(x)
        assert adapter.net.shortcuts(x.shape) == Shortcuts(independent=True, above=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("micro", [1, 5, 64])
def test_micro_batches_give_the_same_update(method, micro):
    naive, quick = both(small_net(), method, doubles(3), speed=Speed(micro_batch=micro))
    assert any(step.updated for step in naive[1])
    assert_same(naive, quick)


def test_micro_batches_never_forward_more_at_once():
    sizes = []
    adapter = dualtta.adapt(small_net(), "dualtta", speed=Speed(micro_batch=4), **LOOSE["dualtta"])
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


def test_a_third_partys_objective_may_ask_for_everybodys_gradient():
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


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("method", ["dualtta", "deyo", "sar", "eata", "tent", "source"])
def test_compiled_passes_give_the_same_and_are_compiled_once_for_every_number_of_samples(method, norm):
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    xs = doubles(9)
    naive, quick = both(small_net(norm), method, xs, speed=Speed(compile=True, backend=counter))
    assert_same(naive, quick)
    torch._dynamo.reset()
    counter.clear()
    adapter = dualtta.adapt(
        small_net(norm).double(), method, speed=Speed(compile=True, backend=counter), **LOOSE.get(method, {})
    )
    run(adapter, xs[:4])  # the fourth may ask the source model, without gradient
    so_far = counter.frame_count
    selected = {int(step.plus.sum()) for step in run(adapter, xs[4:])}
    assert counter.frame_count == so_far <= 4  # a pass with a graph, one without, from the layer upwards, the restyling
    assert method in ("tent", "source") or len(selected) > 1
    run(adapter, [xs[0][:-3]])  # the rest of a stream: never compiled for on its own, eager where statistics are the batch's
    assert counter.frame_count == so_far


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_what_was_compiled_for_a_method_without_a_feature_view_is_not_taken_for_one_with(norm):
    torch._dynamo.reset()
    xs, quick = doubles(3), Speed(compile=True, backend="aot_eager")
    run(dualtta.adapt(small_net(norm).double(), "deyo", speed=quick, **LOOSE["deyo"]), xs)  # adapts the same layers
    assert_same(*both(small_net(norm), "dualtta", xs, speed=quick))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # torch's own, while it compiles
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("speed", ["safe", "half", "compiled", "fast"])
def test_speeds_agree_on_a_gpu(speed, norm):
    xs = [x.cuda() for x in small_stream(4, 32)]
    options = {"lr": 1e-3, **LOOSE["dualtta"]}
    naive, quick = (dualtta.adapt(small_net(norm).cuda(), "dualtta", speed=s, **options) for s in ("naive", speed))
    near = 0.1 if speed in ("half", "fast") else 1e-2
    for a, b in zip(run(naive, xs), run(quick, xs), strict=True):
        assert b.logits.device.type == "cuda"
        assert (a.logits - b.logits.float()).abs().max() < near * a.logits.abs().max()
        if speed == "safe":
            assert torch.equal(a.plus, b.plus)
