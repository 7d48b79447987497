"""Every registered method passes the public checks; each also does what its paper says."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn.functional import cosine_similarity

import dualtta
from dualtta.method import Method, Selection
from dualtta.methods import METHODS, make_method, settings, stored_settings
from dualtta.testing import CHECKS, run, small_net, small_stream
from dualtta.views import PatchShuffle, Style

LOOSE = {
    "dualtta_safe": {"guard": False, "crowd": 2.5, "steady": 0.5}
}  # random weights predict few classes: as it is, it would wait


@pytest.mark.parametrize(
    "norm", ["batch", "group", *(pytest.param(norm, marks=pytest.mark.slow) for norm in ("layer", "instance"))]
)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::dualtta.CollapseWarning")
def test_registered_methods_pass_the_public_checks(name, check, norm):
    check(make_method(name, **LOOSE.get(name, {})), small_net(norm), small_stream())


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("source", "norm")])
def test_adapting_methods_do_adapt_here_so_that_the_checks_mean_something(name, norm):
    adapter = dualtta.adapt(small_net(norm), name, lr=0.01, **LOOSE.get(name, {}))
    assert any(step.updated for step in run(adapter, small_stream()))
    assert any(not torch.equal(p, adapter.weights.source[n]) for n, p in adapter.weights.params.items())


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_source_equals_the_plain_model_bit_for_bit(norm):
    model = small_net(norm).eval()
    adapter = dualtta.adapt(model, "source")
    for x in small_stream():
        assert torch.equal(adapter(x), model(x))


def test_norm_normalises_by_the_batch_and_changes_nothing():
    model = small_net("batch")
    by_batch = copy.deepcopy(model).eval()
    for module in by_batch.modules():
        module.training = isinstance(module, nn.BatchNorm2d)
    adapter = dualtta.adapt(model, "norm")
    for x in small_stream():
        torch.testing.assert_close(adapter(x), by_batch(x), rtol=0, atol=0)


def reference_dualtta(model, x, keys, eps_mu, eps_sigma, layer, *, tau_sa, tau_sp, relative, reduction):
    """The paper's equations, written once more and slowly: plus, minus, drops and loss of one batch."""
    prefix = 1 if isinstance(model, VisionTransformer) else 0

    def restyle(module, args, z):
        maps = z[:, prefix:].transpose(1, 2) if z.ndim == 3 else z.flatten(2)  # (B, C, positions)
        u, s = maps.mean(2), maps.std(2, correction=0)
        u_new, s_new = u + eps_mu[:, None] * u.std(0, correction=0), s + eps_sigma[:, None] * s.std(0, correction=0)
        safe = torch.where(s > 0, s, 1)
        out = (maps - u[..., None]) * (s_new / safe)[..., None] + u_new[..., None]
        return torch.cat([z[:, :prefix], out.transpose(1, 2)], 1) if z.ndim == 3 else out.reshape(z.shape)

    side = x.shape[-1] // 4
    shuffled = x.clone()
    for b, order in enumerate(keys.argsort(1).tolist()):
        for j, k in enumerate(order):
            (tr, tc), (fr, fc) = divmod(j, 4), divmod(k, 4)
            patch = x[b, :, fr * side : (fr + 1) * side, fc * side : (fc + 1) * side]
            shuffled[b, :, tr * side : (tr + 1) * side, tc * side : (tc + 1) * side] = patch

    logits = model(x)
    p = logits.softmax(1)
    k = p.argmax(1)
    p_sa = model(shuffled).softmax(1)
    handle = model.get_submodule(layer).register_forward_hook(restyle)
    p_sp = model(x).softmax(1)
    handle.remove()
    entropy = -(p * p.log()).sum(1)
    falling, rising, plus, minus, drops = [], [], [], [], []
    for b in range(len(x)):
        scale = p[b, k[b]].item() if relative else 1.0
        sa, sp = ((p[b, k[b]] - q[b, k[b]]).item() / scale for q in (p_sa, p_sp))
        certain = math.exp(0.4 * math.log(p.shape[1]) - entropy[b].item())
        plus.append(sa > tau_sa and sp < tau_sp)
        minus.append(sa < tau_sa and sp > tau_sp)
        drops.append((sa, sp))
        if plus[-1]:
            falling.append((certain + math.exp(sa) + math.exp(0.7 - sp)) * entropy[b])
        if minus[-1]:
            rising.append(certain * entropy[b])
    sizes = (max(1, len(falling)), max(1, len(rising))) if reduction == "mean" else (1, 1)
    loss = sum(falling) / sizes[0] - 0.5 * sum(rising) / sizes[1]
    return plus, minus, torch.tensor(drops, dtype=x.dtype), loss


def token_net():
    torch.manual_seed(0)
    net = VisionTransformer(img_size=16, patch_size=4, embed_dim=24, depth=4, num_heads=3, num_classes=10)
    nn.init.normal_(net.head.weight, std=1.0)
    nn.init.normal_(net.pos_embed, std=1.0)  # positions matter
    return net


@pytest.mark.parametrize(("relative", "reduction"), [(False, "mean"), (True, "mean"), (False, "sum")])
@pytest.mark.parametrize(("net", "layer"), [(token_net, "blocks.1"), (small_net, "1"), (lambda: small_net("batch"), "1")])
def test_dualtta_follows_the_equations_over_a_stream(net, layer, relative, reduction):
    model = net().double()
    setting = {"tau_sa": 0.0, "tau_sp": 0.0, "reduction": reduction}  # every quadrant has somebody
    adapter = dualtta.adapt(model, "dualtta", lr=0.01, layer=layer, drop="relative" if relative else "absolute", **setting)
    reference = copy.deepcopy(model).eval()
    for module in reference.modules():
        module.training = isinstance(module, nn.BatchNorm2d)
    names = list(adapter.weights.params)
    optimizer = torch.optim.SGD([reference.get_parameter(name) for name in names], lr=0.01, momentum=0.9)
    selected = [0, 0]
    for x in small_stream(batches=3):
        step = adapter.step(x.double())
        (keys,), (eps_mu, eps_sigma) = step.draws["alter"], step.draws["preserve"]
        plus, minus, drops, loss = reference_dualtta(
            reference, x.double(), keys, eps_mu, eps_sigma, layer, relative=relative, **setting
        )
        assert step.plus.tolist() == plus
        assert step.minus.tolist() == minus
        torch.testing.assert_close(torch.stack([step.drops["alter"], step.drops["preserve"]], 1), drops)
        torch.testing.assert_close(step.loss, torch.as_tensor(loss).detach().double())
        if any(plus + minus):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        selected = [selected[0] + sum(plus), selected[1] + sum(minus)]
    assert min(selected) > 0
    for name in names:
        torch.testing.assert_close(adapter.weights.params[name], reference.get_parameter(name))


@pytest.mark.parametrize(("filter_sa", "filter_sp"), [(True, True), (False, True), (True, False), (False, False)])
def test_a_filter_that_is_off_is_no_criterion(filter_sa, filter_sp):
    method = make_method("dualtta", tau_sa=0.2, tau_sp=0.02, filter_sa=filter_sa, filter_sp=filter_sp)
    step = dualtta.adapt(small_net(), method).step(small_stream()[0])
    sa, sp = step.drops["alter"], step.drops["preserve"]
    falls, holds = sa > 0.2, sp < 0.02
    if filter_sa and filter_sp:
        plus, minus = falls & holds, ~falls & ~holds
    elif filter_sp:
        plus, minus = holds, ~holds
    elif filter_sa:
        plus, minus = falls, ~falls
    else:
        plus, minus = torch.ones_like(falls), torch.zeros_like(falls)
    assert torch.equal(step.plus, plus)
    assert torch.equal(step.minus, minus)


def test_without_d_minus_only_the_entropy_of_d_plus_counts():
    step = dualtta.adapt(small_net(), "dualtta", lam=0.0, tau_sp=0.02).step(small_stream()[0])
    assert step.minus.any()
    assert step.loss >= 0


def test_deyo_forwards_the_confident_samples_only():
    x = small_stream()[0]
    step = dualtta.adapt(small_net(), "deyo", tau_ent=0.2).step(x)
    looked = ~step.drops["alter"].isnan()
    assert 0 < looked.sum() < len(x)
    assert step.forwards == len(x) + looked.sum() + step.plus.sum()  # the selected again, for their gradient
    assert step.backwards == step.plus.sum()
    assert step.drops["preserve"].isnan().all()


def test_forwards_are_counted():
    x = small_stream()[0]
    counts = {"source": 16, "norm": 16, "tent": 16, "eata": 16, "sar": 32, "dualtta": 48}
    assert {name: dualtta.adapt(small_net(), name, speed="naive").step(x).forwards for name in counts} == counts


def test_nobody_selected_means_no_step_at_all():
    adapter = dualtta.adapt(small_net(), "dualtta", lr=0.1)
    xs = small_stream()
    assert adapter.step(xs[0]).updated
    after = adapter.weights.values()
    nobody = adapter.step(xs[1] * 0)  # a blank image is the same however it is shuffled
    assert (nobody.updated, nobody.skipped) == (False, False)
    assert not (nobody.plus | nobody.minus).any()
    assert nobody.loss == 0
    assert all(torch.equal(after[name], value) for name, value in adapter.weights.values().items())


def test_eata_keeps_the_average_of_what_it_selected():
    adapter = dualtta.adapt(small_net(), "eata", epsilon=0.6, lr=1e-4)
    average = None
    for x in small_stream():
        step = adapter.step(x)
        p = step.logits.softmax(1)
        entropy = -(p * p.log()).sum(1)
        reliable = entropy < 0.4 * math.log(10)
        redundant = torch.zeros(16, dtype=torch.bool) if average is None else cosine_similarity(p, average[None]) >= 0.6
        assert torch.equal(step.plus, reliable & ~redundant)
        if step.plus.any():
            mean = p[step.plus].mean(0)
            average = mean if average is None else 0.9 * average + 0.1 * mean
    torch.testing.assert_close(adapter.memory["average"], average)


def test_sar_recovers_for_good():
    adapter = dualtta.adapt(small_net(), "sar", lr=0.01, recovery_share=100.0)
    step = adapter.step(small_stream()[0])
    assert step.updated
    assert step.recovered
    assert adapter.recoveries == 1
    assert "ema" not in adapter.memory
    assert all(torch.equal(value, adapter.weights.source[name]) for name, value in adapter.weights.values().items())
    assert not adapter._optimizer.velocity


def test_sar_takes_no_step_where_nobody_is_selected_again():
    model, x = small_net(), small_stream()[0]
    p = dualtta.adapt(model, "source")(x).softmax(1)
    margin = (-(p * p.log()).sum(1)).min().item() / math.log(10) * 1.0001  # only the most certain sample
    adapter = dualtta.adapt(model, "sar", ent0=margin, rho=5.0, lr=0.1)
    step = adapter.step(x)
    assert step.plus.sum() == 1
    assert not step.updated
    assert "ema" not in adapter.memory
    assert all(torch.equal(value, adapter.weights.source[name]) for name, value in adapter.weights.values().items())


def test_sam_agrees_with_an_independent_one():
    from pytorch_optimizer import SAM

    model = small_net("group")
    adapter = dualtta.adapt(model, "sar", lr=0.05, rho=0.1, ent0=10.0)  # ent0: every sample is selected
    names = list(adapter.weights.params)
    other = copy.deepcopy(model).eval()
    optimizer = SAM([other.get_parameter(n) for n in names], torch.optim.SGD, rho=0.1, lr=0.05, momentum=0.9)
    for x in small_stream():
        adapter.step(x)

        def entropy(x=x):
            optimizer.zero_grad()
            log_p = other(x).log_softmax(1)
            (-(log_p.exp() * log_p).sum(1).mean()).backward()

        entropy()
        optimizer.step(entropy)
    for name in names:
        torch.testing.assert_close(adapter.weights.params[name], other.get_parameter(name), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("dualtta", {"tau_sa": 2.0}, "tau_sa must be a number between -1 and 1"),
        ("dualtta", {"tau_sp": "high"}, "tau_sp must be a number"),
        ("dualtta", {"reduction": "average"}, "reduction must be 'mean' or 'sum'"),
        ("dualtta", {"drop": "rel"}, "drop must be 'absolute' or 'relative'"),
        ("dualtta", {"tau": 0.3}, "did you mean 'tau_s"),
        ("dualtta", {"alter": "pach"}, "did you mean 'patch'"),
        ("dualtta", {"preserve": 3}, "must be a view"),
        ("eata", {"epsilon": -0.1}, "epsilon must be a number between 0 and 1"),
        ("sar", {"rho": math.nan}, "rho must be a number at least 0"),
        ("tennt", {}, "did you mean 'tent'"),
    ],
)
def test_bad_settings_are_refused_with_the_way_out(name, wrong, says):
    with pytest.raises(ValueError, match=says):
        dualtta.adapt(small_net(), name, **wrong)


def test_views_are_given_by_name_or_as_objects():
    assert settings(make_method("dualtta", alter="pixel"))["alter"] == {"view": "pixel"}
    assert make_method("dualtta", preserve=Style("2")).preserve.layer == "2"
    assert make_method(make_method("deyo"), alter=PatchShuffle(2)).alter.grid == 2


def test_a_method_of_ones_own_needs_no_registration():
    @dataclass(frozen=True, kw_only=True)
    class Confident(Method):
        least: float = 0.5

        def select(self, probe, memory):
            return Selection.of(probe.confidence > self.least, probe.confidence)

    step = dualtta.adapt(small_net(), Confident, least=0.9).step(small_stream()[0])
    assert torch.equal(step.plus, step.logits.softmax(1).amax(1) > 0.9)


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_the_weights_of_a_method_may_be_wider_than_the_logits(norm):
    @dataclass(frozen=True, kw_only=True)
    class Wide(Method):
        def select(self, probe, memory):
            return Selection.of(probe.all_samples, probe.confidence.double())

    assert dualtta.adapt(small_net(norm), Wide).step(small_stream()[0]).updated


def test_a_hyper_parameter_is_known_by_its_name_in_records_and_saved_states_too():
    model = small_net()
    for given in ({"spare": 0.5}, {"frozen_top": 0.5}):
        adapter = dualtta.adapt(model, "tent", **given)
        assert adapter.method.frozen_top == 0.5
        assert stored_settings(adapter.method)["spare"] == 0.5
        assert settings(adapter.method)["frozen_top"] == 0.5
    with pytest.raises(ValueError, match="two of its names"):
        dualtta.adapt(model, "tent", spare=0.5, frozen_top=0.5)
    with pytest.raises(ValueError, match="frozen_top must be a number between 0 and 1"):
        dualtta.adapt(model, "tent", spare=2)


def test_a_method_can_be_written_from_the_top_level_alone():
    @dataclass(frozen=True, kw_only=True)
    class Cautious(dualtta.Method):
        alter: dualtta.View = dualtta.PatchShuffle()
        tau: float = dualtta.within(0.1, -1, 1)
        norm: str = dualtta.one_of("mean", "sum")

        @property
        def update(self):
            return dualtta.Anchored(0.1)

        def select(self, probe: dualtta.Probe, memory: dualtta.Memory) -> dualtta.Selection:
            falls = probe.drop("alter", needed=probe.confidence > self.tau) > self.tau
            return dualtta.Selection.of(falls, probe.confidence)

        def objective(self, probe, selection, memory):
            return dualtta.entropy_objective(probe, selection, reduction=self.norm)

    assert dualtta.adapt(small_net(), Cautious, tau=0.02).step(small_stream()[0]).updated
