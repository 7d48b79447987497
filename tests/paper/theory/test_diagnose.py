"""The theory's symbols against closed forms and independent computations."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from dualtta.paper.theory import diagnose
from dualtta.paper.theory.diagnose import QUANTITIES, measure, perturbation
from dualtta.paper.theory.restyled import Restyled, style_of
from dualtta.paper.theory.symbols import entropy, jacobian_norm, lipschitz, style, style_component, style_gradient
from dualtta.paper.theory.writing import as_json
from dualtta.testing import small_net, small_stream
from dualtta.views import Style

PREDICTED = 1e-6


def linear_net(classes=5, seed=0) -> nn.Module:
    """Logits that are linear in the map of layer 1, and so in its style."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.GroupNorm(2, 6), nn.Flatten(), nn.Linear(6 * 64, classes))
    nn.init.uniform_(net[1].weight, 0.5, 1.5)
    nn.init.uniform_(net[1].bias, -1, 1)
    return net.double()


def tiny_vit(classes=5) -> nn.Module:
    from timm.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    net = VisionTransformer(img_size=16, patch_size=4, embed_dim=16, depth=4, num_heads=2, num_classes=classes)
    nn.init.normal_(net.head.weight, std=1.0)
    return net.double()


def stream(batches=2, size=12):
    return [x.double() for x in small_stream(batches, size)]


def looked_at(net, layer, x):
    restyled = Restyled(net.eval(), layer)
    with torch.no_grad():
        logits, patches = restyled.forward(x)
    h = style_of(patches)
    return restyled, logits, patches, h, restyled.logits(x, (h[0].detach(), h[1].detach()), h)


# a net whose K is known


def test_on_a_linear_net_the_gradients_and_K_are_the_closed_form():
    net, x = linear_net(), stream()[0]
    _, _, patches, h, live = looked_at(net, "1", x)
    y, k = live.detach().topk(2, 1).indices.T
    by_u, by_s = style_gradient((live.gather(1, y[:, None]) - live.gather(1, k[:, None])).squeeze(1), h)
    weight = net[3].weight.reshape(5, 6, 64)
    difference = weight[y] - weight[k]  # (B, channels, positions)
    content = (patches - h[0][:, :, None]) / h[1][:, :, None]
    wanted_u, wanted_s = difference.sum(2), (difference * content).sum(2)
    assert torch.allclose(by_u, wanted_u, rtol=0, atol=1e-10)
    assert torch.allclose(by_s, wanted_s, rtol=0, atol=1e-10)
    wanted = torch.maximum(wanted_u.norm(dim=1), wanted_s.norm(dim=1))
    assert torch.allclose(lipschitz((by_u, by_s)), wanted, rtol=0, atol=1e-10)
    assert diagnose(net, [x], layer="1").columns["K"] == pytest.approx(wanted.detach().numpy(), abs=1e-10)


def test_on_a_linear_net_first_order_is_exact_for_logits_and_every_flip_respects_the_bound():
    found = diagnose(linear_net(), stream(4), layer="1", scales=(0.1, 1.0, 5.0), reach=40.0)
    assert found.predicted["gap"] == pytest.approx(found.actual["gap"], abs=PREDICTED)
    assert found.predicted["probability"] != pytest.approx(found.actual["probability"], abs=PREDICTED)
    assert found.summary["flips"] >= 20
    assert found.summary["bound"]["share"] == found.summary["bound"]["along"] == 1.0
    assert any("holds for all" in said for said in found.sentences)
    assert any("s_y - s_k" in said and "at every scale" in said for said in found.sentences)


def test_on_a_linear_net_flips_are_where_the_line_crosses_zero():
    net, x = linear_net(), stream()[0]
    restyled = Restyled(net.eval(), "1")
    rows, draws = measure(restyled, x, [], (1.0,), 40.0, torch.Generator().manual_seed(3))
    _, logits, _, h, live = looked_at(net, "1", x)
    delta = perturbation((h[0].detach(), h[1].detach()), draws)
    slope = torch.stack([sum((g * d).sum(1) for g, d in zip(style_gradient(s, h), delta, strict=True)) for s in live.T], 1)
    y = logits.argmax(1)
    closing = slope.gather(1, y[:, None]) - slope  # how fast class k gains on y, with the sign turned
    crossing = (logits.gather(1, y[:, None]) - logits) / -closing
    crossing[(crossing <= 0) | ~crossing.isfinite()] = torch.inf
    wanted, whom = crossing.min(1)
    flipped = rows["flip_class"] >= 0
    assert flipped.any()
    assert torch.equal(flipped, wanted <= 40)
    assert torch.allclose(rows["flip_scale"][flipped], wanted[flipped], rtol=1e-4)
    assert torch.equal(rows["flip_class"][flipped], whom[flipped])


# the gradient's style part


def test_g_s_is_the_gradient_at_fixed_content():
    net, x = small_net("group").double().eval(), stream()[0][:1]
    parameters = [p for name, p in net.named_parameters() if name.startswith(("0.1", "1.1"))]
    restyled, _, _, h, live = looked_at(net, "1", x)
    by_style = style_gradient(entropy(live), h)
    _, patches = restyled.forward(x)
    g_s = style_component(style(patches), by_style, parameters)

    def content_only(module, args, output):  # the same map, whose style moves no parameter
        u, s = (value[:, :, None, None] for value in style(output.flatten(2)))
        scale = torch.where(s > 0, s, 1.0)
        return (output - u) / scale * scale.detach() + u.detach()

    whole = torch.autograd.grad(entropy(net(x)).sum(), parameters)
    handle = net[1].register_forward_hook(content_only)
    try:
        g_c = torch.autograd.grad(entropy(net(x)).sum(), parameters)
    finally:
        handle.remove()
    for style_part, content_part, all_of_it in zip(g_s, g_c, whole, strict=True):
        assert style_part.norm() > 1e-6
        assert torch.allclose(style_part + content_part, all_of_it, rtol=0, atol=1e-10)


def test_g_s_is_the_transposed_jacobian_times_the_style_gradient():
    net, x = small_net("group").double().eval(), stream()[0][:1]
    names = [name for name, _ in net.named_parameters() if name.startswith(("0.1", "1.1"))]
    parameters = {name: dict(net.named_parameters())[name] for name in names}
    restyled, _, _, h, live = looked_at(net, "1", x)
    by_style = style_gradient(entropy(live), h)
    _, patches = restyled.forward(x)
    g_s = style_component(style(patches), by_style, list(parameters.values()))

    def style_by(values):
        z = torch.func.functional_call(net[:2], values, (x,)).flatten(2)
        return torch.cat(style(z), 1)[0]

    jacobian = torch.func.jacrev(style_by)({name: p.detach() for name, p in parameters.items()})
    at = torch.cat(by_style, 1)[0]
    for name, found in zip(names, g_s, strict=True):
        assert torch.allclose(found, torch.einsum("sp,s->p", jacobian[name], at), rtol=0, atol=1e-10)


def test_theta_are_the_adapted_parameters_below_the_layer():
    found = diagnose(small_net().double(), stream(1), layer="1")
    assert found.about["theta"] == 2 * (8 + 16)  # two norm layers' scales and shifts
    assert found.columns["share"] == pytest.approx(found.columns["style_gradient"] / found.columns["gradient"])
    nowhere = diagnose(small_net().double(), stream(1), layer="0.0")  # the convolution before the first norm layer
    assert nowhere.about["theta"] == 0
    assert np.isnan(nowhere.columns["share"]).all()
    assert any("not measured" in said for said in nowhere.sentences)
    assert json.loads(json.dumps(as_json(nowhere)))["summary"]["groups"]["rest"]["share"] is None


def test_the_jacobians_norm_is_that_of_dp_dh(monkeypatch):
    net, x = small_net().double(), stream()[0][:3]
    restyled, _, _, h, live = looked_at(net, "1", x)
    old = (h[0].detach(), h[1].detach())

    def probs(u, s):
        return restyled.logits(x, old, (u, s)).softmax(1)

    by_u, by_s = torch.autograd.functional.jacobian(probs, old)
    own = [(by_u[i, :, i].square().sum() + by_s[i, :, i].square().sum()).sqrt() for i in range(3)]
    generator = torch.Generator().manual_seed(0)
    assert torch.allclose(jacobian_norm(live, h, generator), torch.stack(own), rtol=1e-10)
    monkeypatch.setattr("dualtta.paper.theory.symbols.EXACT", 2)
    monkeypatch.setattr("dualtta.paper.theory.symbols.PROBES", 600)
    assert torch.allclose(jacobian_norm(live, h, generator), torch.stack(own), rtol=0.15)


# nets and batches of other kinds


def test_the_perturbation_is_the_one_that_the_style_view_makes():
    net, x = small_net().double().eval(), stream()[0]
    restyled, _, _, h, _ = looked_at(net, "1", x)
    old = (h[0].detach(), h[1].detach())
    draws = Style().draw(x, torch.Generator().manual_seed(1))
    delta = perturbation(old, draws)
    ours = restyled.logits(x, old, (old[0] + delta[0], old[1] + delta[1]))
    z, _ = Style().transform(net[:2](x), draws, 1, 0, {})
    assert torch.allclose(ours, net[2:](z), rtol=0, atol=1e-10)


def test_a_stream_without_flips_is_reported():
    net = linear_net()
    with torch.no_grad():
        net[3].weight.mul_(1e-3)
        net[3].bias.copy_(torch.tensor([9.0, 0, 0, 0, 0]))
    found = diagnose(net, stream(), layer="1")
    assert found.summary["flips"] == 0
    assert found.summary["censored"] == 24
    assert found.summary["bound"]["share"] is None
    assert np.isnan(found.columns["flip_scale"]).all()
    assert any("No sample flips" in said for said in found.sentences)
    assert not any("bound" in said for said in found.sentences)


def test_the_class_token_of_token_maps_is_unchanged():
    net, x = tiny_vit(), stream()[0]
    restyled = Restyled(net.eval(), "blocks.1")
    assert restyled.forward(x)[1].shape == (12, 16, 16)  # 16 patches of 17 tokens
    found = diagnose(net, [x], scales=(1e-4, 1.0))
    assert found.about["layer"] == "blocks.1"
    assert found.about["theta"] == 2 * 4 * 16
    small = found.summary["scales"][0]
    assert all(small[name]["missed"] < 0.01 for name in QUANTITIES)


def test_the_first_of_several_maps_of_a_layer_is_measured_as_in_the_adapter():
    class Twice(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.kind, self.conv, self.norm = kind, nn.Conv2d(3, 6, 3, 2, 1), nn.GroupNorm(2, 6)

        def forward(self, x):
            z = self.norm(self.conv(x))
            return z if self.kind is None else self.kind((z, z.detach()))

    class First(nn.Module):
        def forward(self, maps):
            return maps if isinstance(maps, torch.Tensor) else maps[0]

    found = []
    for kind in (None, tuple, list):
        torch.manual_seed(0)
        net = nn.Sequential(Twice(kind), First(), nn.Tanh(), nn.Flatten(), nn.Linear(6 * 64, 5))
        found.append(diagnose(net.double(), stream(1), layer="0", spare=0.0))
    for other in found[1:]:
        assert other.columns["K"].tolist() == found[0].columns["K"].tolist()
        assert other.columns["share"].tolist() == found[0].columns["share"].tolist()


def test_a_batch_of_one_has_no_direction_and_is_counted_separately():
    x = stream()[0]
    found = diagnose(small_net().double(), [x[:8], x[8:9]])
    assert found.columns["directed"].tolist() == [True] * 8 + [False]
    assert np.isfinite(found.columns["K"]).all()
    assert found.summary["directed"] == 8
    assert found.summary["flips"] + found.summary["censored"] == 8
    assert any(said.startswith("1 of 9 samples have no direction of perturbation") for said in found.sentences)
    alone = diagnose(small_net().double(), [x[:1]])
    assert alone.summary["directed"] == alone.summary["flips"] == 0
    assert alone.summary["scales"][0]["gap"] == {"change": None, "missed": None, "sign": None}


def test_dead_channels_leave_everything_finite():
    net = small_net().double()
    with torch.no_grad():
        net[1][1].weight[:4] = 0
        net[1][1].bias[:4] = -1  # dead after the ReLU, on every image
    found = diagnose(net, stream())
    for name in ("margin", "K", "jacobian", "style_gradient", "gradient", "share"):
        assert np.isfinite(found.columns[name]).all(), name
    _, _, patches, h, live = looked_at(net, "1", stream()[0])
    _, by_s = style_gradient(entropy(live), h)
    assert (h[1][:, :4] == 0).all()
    assert (by_s[:, :4] == 0).all()
    delta = perturbation((h[0].detach(), h[1].detach()), Style().draw(patches, torch.Generator()))
    assert (delta[1][:, :4] == 0).all()


def test_batch_norm_uses_the_sources_statistics_and_this_is_reported():
    x = torch.cat(stream(2, 6))
    net = small_net("batch").double()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found, split = diagnose(net, [x]), diagnose(net, [x[:6], x[6:]])
    assert found.columns["margin"] == pytest.approx(split.columns["margin"], rel=1e-9)
    assert found.columns["K"] == pytest.approx(split.columns["K"], rel=1e-9)
    assert "source's statistics" in found.sentences[0]
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())


def test_models_whose_samples_influence_each_other_are_refused():
    mixing = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Flatten(), nn.Linear(784, 3))
    with pytest.raises(ValueError, match="without running statistics"):
        diagnose(mixing, small_stream(1), layer="0")

    class Centred(nn.Module):
        def forward(self, x):
            return x - x.mean(0, keepdim=True)

    with pytest.raises(ValueError, match="influence each other"):
        diagnose(
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), Centred(), nn.Flatten(), nn.Linear(784, 3)), small_stream(1)
        )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"scales": ()}, "above 0"),
        ({"scales": (0.0,)}, "above 0"),
        ({"reach": -1.0}, "above 0"),
        ({"layer": "9"}, "no layer '9'"),
    ],
)
def test_bad_settings_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        diagnose(small_net(), small_stream(1), **options)


def test_an_empty_stream_is_refused():
    with pytest.raises(ValueError, match="no batch"):
        diagnose(small_net(), [])


def test_the_source_model_predicts_every_batch_unless_adapting():
    net, batches = small_net().double(), stream(3)
    resting, moving = diagnose(net, batches, lr=0.1), diagnose(net, batches, lr=0.1, adapting=True)
    alone = diagnose(net, batches[2:], lr=0.1)
    assert resting.columns["margin"][24:] == pytest.approx(alone.columns["margin"], rel=1e-12)
    assert moving.columns["margin"][:12] == pytest.approx(resting.columns["margin"][:12], rel=1e-12)
    assert moving.columns["margin"][24:] != pytest.approx(resting.columns["margin"][24:], rel=1e-3)


def test_groups_are_those_of_the_method():
    batches = stream(2)
    found = diagnose(small_net().double(), batches, tau_sa=0.0, tau_sp=0.0, seed=3)
    assert found.columns["plus"].any()
    assert found.columns["minus"].any()
    drop = -found.actual["probability"][:, list(found.scales).index(1.0)]  # the preserving view's, at the draw itself
    assert (drop[found.columns["plus"]] < 0).all()
    assert (drop[found.columns["minus"]] > 0).all()
    assert sum(group["samples"] for group in found.summary["groups"].values()) == 24
