"""The adapter as people use it: their models, their batches, their precision."""

import copy

import pytest
import torch
from torch import nn

import dualtta
from dualtta.testing import run, same, same_step, small_net, small_stream

ALL = {"tau_sa": -1, "tau_sp": 1}  # thresholds that let every sample into D+


class Wrapped(nn.Module):
    def __init__(self, inner, wrap):
        super().__init__()
        self.inner, self.wrap = inner, wrap

    def forward(self, x):
        return self.wrap(self.inner(x))


def test_the_default_adapts_any_classifier():
    adapter = dualtta.adapt(small_net())
    assert type(adapter.method) is dualtta.METHODS["dualtta_safe"]
    assert adapter(small_stream()[0]).shape == (16, 10)


def test_copy_false_adapts_in_place_and_reset_brings_it_back():
    model = small_net()
    before = copy.deepcopy(model.state_dict())
    adapter = dualtta.adapt(model, "tent", lr=0.1, copy=False)
    adapter(small_stream()[0])
    assert adapter.model is model
    assert not same(model.state_dict(), before)
    adapter.reset()
    assert same(model.state_dict(), before)


def test_the_adapted_model_can_be_taken_out():
    adapter = dualtta.adapt(small_net("batch"), "tent", lr=0.1)
    xs = small_stream()
    run(adapter, xs)
    assert torch.equal(adapter.model(xs[0]), adapter.predict(xs[0]))
    assert "0.1.running_mean" in adapter.model.state_dict()


def test_dropout_stays_off_and_running_statistics_survive():
    model = small_net("batch").train()
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    adapter = dualtta.adapt(model, **ALL)
    run(adapter, small_stream())
    assert torch.equal(adapter.predict(small_stream()[0]), adapter.predict(small_stream()[0]))
    assert same(dict(adapter.model.named_buffers()), buffers)


@pytest.mark.parametrize(
    ("wrap", "read"),
    [
        (lambda z: {"logits": z, "features": None}, lambda out: out["logits"]),
        (lambda z: (z, "aux"), lambda out: out[0]),
        (lambda z: z[:, :, None, None], lambda out: out.flatten(1)),
    ],
)
def test_models_that_return_something_else_take_logits(wrap, read):
    x, plain = small_stream()[0], small_net()
    with pytest.raises(ValueError, match="logits="):
        dualtta.adapt(Wrapped(plain, wrap), "tent")(x)
    torch.testing.assert_close(dualtta.adapt(Wrapped(plain, wrap), "tent", logits=read)(x), dualtta.adapt(plain, "tent")(x))


def test_what_adapts_and_where_the_view_sits_can_be_named():
    adapter = dualtta.adapt(small_net(), parameters=["0.1.*"], layer="2", lr=0.1, **ALL)
    assert list(adapter.weights.params) == ["0.1.weight", "0.1.bias"]
    assert adapter.net.layer == "2"
    with pytest.raises(ValueError, match=r"no parameter '0\.2\.weigth'.*did you mean '0\."):
        dualtta.adapt(small_net(), parameters=["0.2.weigth"])
    with pytest.raises(ValueError, match="no layer '9'"):
        dualtta.adapt(small_net(), layer="9")
    with pytest.raises(ValueError, match="no layer '9'"):
        dualtta.adapt(small_net(), preserve=dualtta.VIEWS["style"]("9")).step(small_stream()[0])


class Explosive(nn.Module):
    """Gives finite logits whose gradient is not, for batches that are told to."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.armed = inner, False

    def forward(self, x):
        logits = self.inner(x)
        return logits + 0 * (logits * 0).sqrt() if self.armed else logits  # the root's slope at zero is infinite


def test_a_gradient_that_is_not_finite_skips_the_update_and_is_counted():
    adapter = dualtta.adapt(Explosive(small_net()), "tent", lr=0.1)
    xs = small_stream()
    adapter(xs[0])
    before, memory = adapter.weights.values(), dict(adapter.memory)
    adapter.model.armed = True
    step = adapter.step(xs[1])
    assert step.skipped
    assert not step.updated
    assert adapter.skips == 1
    assert same(adapter.weights.values(), before)
    assert same(dict(adapter.memory), memory)
    adapter.model.armed = False
    assert adapter.step(xs[2]).updated


def test_logits_that_are_not_finite_skip_the_update():
    model = Wrapped(small_net(), lambda z: z * torch.tensor([torch.inf] + [1.0] * 9))
    for method in ("tent", "dualtta", "sar", "eata"):
        adapter = dualtta.adapt(model, method)
        assert adapter.step(small_stream()[0]).skipped
        assert same(adapter.weights.values(), adapter.weights.source)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("method", dualtta.METHODS)
def test_batches_of_one(method, norm):
    adapter = dualtta.adapt(small_net(norm), method, speed="naive")  # looks at every sample
    steps = [adapter.step(x[None]) for x in small_stream(1, 6)[0]]
    assert all(step.logits.isfinite().all() for step in steps)
    if method == "dualtta":
        drops = [step.drops["preserve"].item() for step in steps]
        assert abs(drops[0]) < 1e-6  # nothing to compare the first with
        assert all(abs(drop) > 0 for drop in drops[1:])
        assert adapter.memory["preserve.count"] == 6
        adapter.step(small_stream(1, 6)[0])
        assert adapter.memory["preserve.count"] == 6  # only batches of one are counted


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_steps_on_a_narrow_model_are_not_rounded_away(dtype):
    wide, narrow = small_net(), small_net().to(dtype)
    xs = small_stream(8)
    adapter = dualtta.adapt(narrow, "tent", lr=1e-5)
    run(adapter, [x.to(dtype) for x in xs])
    reference = dualtta.adapt(wide, "tent", lr=1e-5)
    run(reference, xs)
    for name, master in adapter.weights.masters.items():
        assert master.dtype == torch.float32
        assert adapter.weights.params[name].dtype == dtype
        moved, should = master - adapter.weights.source[name], reference.weights.params[name] - reference.weights.source[name]
        assert moved.norm() > 0.5 * should.norm()
        assert torch.equal(adapter.weights.params[name], master.to(dtype))


@pytest.mark.parametrize("method", ["tent", "eata", "sar", "deyo", "dualtta"])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_bf16_autocast_keeps_losses_and_parameters_in_float32(norm, method):
    model, xs = small_net(norm), small_stream()
    wide = run(dualtta.adapt(model, method, lr=1e-3), xs)
    adapter = dualtta.adapt(model, method, lr=1e-3)
    with torch.autocast("cpu", torch.bfloat16):
        steps = run(adapter, xs)
    assert steps[0].logits.dtype == torch.bfloat16
    assert all(step.loss.dtype == step.weight.dtype == torch.float32 for step in steps)
    assert all(p.dtype == torch.float32 and p.isfinite().all() for p in adapter.model.parameters())
    assert any(step.updated for step in steps)
    torch.testing.assert_close(steps[-1].logits.float(), wide[-1].logits, rtol=0.1, atol=0.5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("method", dualtta.METHODS)
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_cuda_agrees_with_the_cpu(norm, method, autocast, tmp_path):
    model, xs = small_net(norm), small_stream()
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    here = run(dualtta.adapt(model, method, lr=1e-3), xs)
    adapter = dualtta.adapt(copy.deepcopy(model).cuda(), method, lr=1e-3)
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        there = run(adapter, [x.cuda() for x in xs])
    for a, b in zip(here, there, strict=True):
        assert a.forwards == b.forwards or autocast
        tolerance = {"rtol": 0.1, "atol": 0.6} if autocast else {"rtol": 1e-3, "atol": 1e-3}
        torch.testing.assert_close(a.logits, b.logits.float().cpu(), **tolerance)
        if not autocast:
            assert torch.equal(a.plus, b.plus.cpu())
            assert torch.equal(a.minus, b.minus.cpu())
    adapter.save(tmp_path / "state")
    on_cpu = dualtta.adapt(model, method, lr=1e-3)
    on_cpu.load(tmp_path / "state")
    assert all(torch.equal(value, adapter.weights.values()[name].cpu()) for name, value in on_cpu.weights.values().items())


def test_seeds_differ_and_repeat():
    def drops(seed):
        return dualtta.adapt(small_net(), seed=seed, speed="naive").step(small_stream()[0]).drops["preserve"]

    assert torch.equal(drops(1), drops(1))
    assert not torch.equal(drops(1), drops(2))


def test_draws_replay():
    x = small_stream()[0]
    first = dualtta.adapt(small_net(), seed=1).step(x)
    assert same_step(first, dualtta.adapt(small_net(), seed=2).step(x, draws=first.draws))


def test_an_error_in_the_model_leaves_no_trace_in_the_weights():
    class Interrupted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = small_net(), 0

        def forward(self, x):
            self.calls += 1
            if self.calls == 2:  # SAR's second forward, at the climbed weights
                raise KeyboardInterrupt
            return self.inner(x)

    adapter = dualtta.adapt(Interrupted(), "sar", rho=1.0)
    with pytest.raises(KeyboardInterrupt):
        adapter(small_stream()[0])
    assert same(adapter.weights.values(), adapter.weights.source)
    assert all(torch.equal(p, adapter.weights.source[name]) for name, p in adapter.weights.params.items())


def test_the_adapter_says_what_it_is():
    assert "Tent" in repr(dualtta.adapt(small_net(), "tent"))
    assert "parameters adapt" in repr(dualtta.adapt(small_net(), "tent"))


@pytest.mark.parametrize("method", ["tent", "dualtta"])  # weights of one, and above one
def test_masked_classes_do_not_stop_adaptation(method):
    model = Wrapped(small_net(), lambda z: torch.cat([z[:, :3], torch.full_like(z[:, 3:5], -torch.inf), z[:, 5:]], 1))
    adapter = dualtta.adapt(model, method, lr=0.1, **({"tau_sa": 0.05} if method == "dualtta" else {}))
    step = adapter.step(small_stream()[0])
    assert step.updated
    assert step.loss.isfinite()


def test_train_called_on_the_adapted_model_changes_nothing():
    adapter, x = dualtta.adapt(small_net(), "tent"), small_stream()[0]
    before = adapter.predict(x)
    adapter.model.train()
    assert torch.equal(adapter.predict(x), before)


def test_autocast_around_the_whole_stream_sees_every_update():
    model, xs = small_net(), small_stream()
    one, each = (dualtta.adapt(model, "tent", lr=0.5, parameters=["*.weight"]) for _ in range(2))
    with torch.autocast("cpu", torch.bfloat16):
        whole = run(one, xs)
    parts = []
    for x in xs:
        with torch.autocast("cpu", torch.bfloat16):
            parts.append(each.step(x))
    assert all(map(same_step, whole, parts))


def test_a_norm_layer_that_all_stages_share():
    norm = nn.GroupNorm(2, 8)
    stages = [nn.Sequential(nn.Conv2d(i, 8, 3, 1, 1), norm, nn.ReLU()) for i in (3, 8, 8, 8)]
    model = nn.Sequential(*stages, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10))
    assert dualtta.adapt(model, "tent", lr=0.1).step(small_stream()[0]).updated


def test_a_compiled_model_is_adapted_as_what_it_compiles():
    model = small_net()
    compiled = torch.compile(model, backend="eager")
    x = small_stream()[0]
    assert same_step(dualtta.adapt(compiled).step(x), dualtta.adapt(model).step(x))


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_what_is_compiled_within_a_model_is_adapted_as_it_was_written(norm, copy):
    def inner(model):
        return nn.Sequential(torch.compile(model, backend="eager"))

    def itself(model):
        model.compile(backend="eager")
        model(small_stream()[0])
        return model

    plain, xs = dualtta.adapt(small_net(norm), "dualtta"), small_stream()
    expected = [plain.step(x) for x in xs]
    for compiled in (inner, itself):
        adapter = dualtta.adapt(compiled(small_net(norm).eval()), "dualtta", copy=copy)
        assert all(same_step(adapter.step(x), there) for x, there in zip(xs, expected, strict=True))


def test_names_in_a_model_with_compiled_parts_are_those_it_gives():
    outer = nn.Sequential(torch.compile(small_net("batch").eval(), backend="eager"))
    name = next(name for name, part in outer.named_modules() if isinstance(part, nn.BatchNorm2d))
    assert "_orig_mod" in name
    adapter = dualtta.adapt(outer, "dualtta", parameters=[f"{name}.weight"], layer=name)
    plain = name.replace("_orig_mod.", "")
    assert (set(adapter.weights.params), adapter.layer) == ({f"{plain}.weight"}, plain)


def test_what_wraps_a_compiled_model_and_passes_on_its_attributes_is_not_left_out():
    class Wrapped(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.module = model

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

        def forward(self, x):
            return -self.module(x)

    x = small_stream()[0]
    expected = dualtta.adapt(Wrapped(small_net()))(x)
    for within in (False, True):
        model = Wrapped(torch.compile(small_net(), backend="eager"))
        model = nn.Sequential(model) if within else model
        assert torch.equal(dualtta.adapt(model)(x), expected)


def test_an_update_that_broke_off_at_weights_that_are_not_finite_does_not_stop_the_next():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.refuses = small_net(), True

        def forward(self, x):
            logits = self.net(x)
            if self.refuses and not logits.isfinite().all():
                raise RuntimeError("what is this?")
            return logits

    adapter, xs = dualtta.adapt(Picky(), "sar", ent0=1.0, recovery_share=0.0, rho=1e39), small_stream()
    with pytest.raises(ValueError, match="what is this"):
        adapter.step(xs[0])
    adapter.method = dualtta.METHODS["sar"](ent0=1.0, recovery_share=0.0)
    adapter._updater.rule = adapter.method.update
    assert adapter.step(xs[1]).updated


@pytest.mark.parametrize("norm", ["group", "batch"])
@pytest.mark.parametrize("method", ["tent", "sar", "dualtta", "dualtta_safe"])
def test_a_model_that_writes_into_its_input_is_given_a_copy(method, norm):
    class Scaled(nn.Module):
        def __init__(self, writes):
            super().__init__()
            self.inner, self.writes = small_net(norm), writes

        def forward(self, x):
            return self.inner(x.sub_(0.5).mul_(2) if self.writes else x.sub(0.5).mul(2))

    settings = {"lr": 0.1, **(ALL if method == "dualtta" else {})}
    writing, plain = (dualtta.adapt(Scaled(writes), method, **settings) for writes in (True, False))
    for x in [*small_stream(), small_stream(1, 1)[0]]:
        given = x.clone()
        assert same_step(writing.step(given), plain.step(x))
        assert torch.equal(given, x)
        with torch.inference_mode():
            given = x.clone()
            assert torch.equal(writing.predict(given), plain.predict(x))
            assert torch.equal(given, x)
