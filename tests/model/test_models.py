"""Any classifier: one real step on each family, and the rules of depth, norm layers and layouts behind it."""

from itertools import pairwise

import pytest
import timm
import torch
import torchvision.models as tv
from timm.layers import BatchNormAct2d, EvoNorm2dS0, GroupNormAct, LayerNorm2d, RmsNorm, RmsNorm2d
from torch import nn
from torchvision.models.vision_transformer import VisionTransformer

import dualtta
from dualtta.methods.dualtta import DualTTA
from dualtta.methods.dualtta_safe import DualTTASafe
from dualtta.model.depth import adapted_parameters, layer_norm_only, style_layer, units
from dualtta.model.features import channel_axis, prefix_tokens
from dualtta.model.norms import affine_names, is_norm, norm_layers
from dualtta.model.parameters import Weights
from dualtta.optim import SGD


def plain():
    layers = []
    for i, o in ((3, 8), (8, 8), (8, 16), (16, 16), (16, 16)):
        layers += [nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


# family -> (how it is made, image side, layer of the style view, last parameter that adapts)
FAMILIES = {
    "sequential": (plain, 16, "4", "10.bias"),
    "torchvision resnet": (tv.resnet18, 64, "layer1", "layer3.1.bn2.bias"),
    "torchvision resnet, deep": (tv.resnet50, 64, "layer1", "layer3.5.bn3.bias"),
    "torchvision vit": (
        lambda: VisionTransformer(64, 16, 12, 2, 32, 64),
        64,
        "encoder.layers.encoder_layer_6",
        "encoder.layers.encoder_layer_8.ln_2.bias",
    ),
    "torchvision convnext": (tv.convnext_tiny, 64, "features.1", "features.5.8.block.2.bias"),
    "torchvision efficientnet": (tv.efficientnet_b0, 64, "features.2", "features.6.3.block.3.1.bias"),
    "torchvision mobilenet": (tv.mobilenet_v3_small, 64, "features.3", "features.9.block.3.1.bias"),
    "torchvision densenet": (tv.densenet121, 64, "features.transition1", "features.transition3.norm.bias"),
    "torchvision regnet": (tv.regnet_y_400mf, 64, "trunk_output.block1", "trunk_output.block3.block3-5.f.c.1.bias"),
    "torchvision swin": (tv.swin_t, 64, "features.1", "features.5.5.norm2.bias"),
    "timm resnet": (lambda: timm.create_model("resnet18"), 64, "layer1", "layer3.1.bn2.bias"),
    "timm resnet, GroupNorm": (lambda: timm.create_model("resnet50_gn"), 64, "layer1", "layer3.5.bn3.bias"),
    "timm vit": (lambda: timm.create_model("vit_tiny_patch16_224", img_size=64), 64, "blocks.6", "blocks.8.norm2.bias"),
    "timm deit": (
        lambda: timm.create_model("deit_tiny_distilled_patch16_224", img_size=64),
        64,
        "blocks.6",
        "blocks.8.norm2.bias",
    ),
    "timm vit, registers": (
        lambda: timm.create_model("vit_small_patch14_reg4_dinov2", img_size=56, num_classes=10),
        56,
        "blocks.6",
        "blocks.8.norm2.bias",
    ),
    "timm convnext": (lambda: timm.create_model("convnext_atto"), 64, "stages.0", "stages.2.blocks.5.norm.bias"),
    "timm efficientnet": (lambda: timm.create_model("efficientnet_lite0"), 64, "blocks.1", "blocks.5.3.bn3.bias"),
    "timm mobilenet": (lambda: timm.create_model("mobilenetv3_small_050"), 64, "blocks.1", "blocks.4.2.bn3.bias"),
    "timm densenet": (lambda: timm.create_model("densenet121"), 64, "features.transition1", "features.transition3.norm.bias"),
    "timm regnet": (lambda: timm.create_model("regnetx_002"), 64, "s1", "s3.b4.conv3.bn.bias"),
    "timm swin": (
        lambda: timm.create_model("swin_tiny_patch4_window7_224", img_size=56),
        56,
        "layers.0",
        "layers.2.blocks.5.norm2.bias",
    ),
}


def wake(model):
    """Random weights instead of the zeros that some families begin with, so that gradients reach everywhere."""
    for parameter in model.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.05)
    return model


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.slow
def test_one_real_step_on_every_family(family):
    make, side, layer, last = FAMILIES[family]
    torch.manual_seed(0)
    model = wake(make()).double()  # where the smallest step shows
    before = {name: value.clone() for name, value in model.state_dict().items()}
    adapter = dualtta.adapt(model, "dualtta", lr=0.1, tau_sa=-1, tau_sp=1, speed="naive")  # these thresholds let everybody in
    reached = []
    handle = adapter.model.get_submodule(layer).register_forward_hook(lambda *args: reached.append(args[2].shape))
    step = adapter.step(torch.randn(4, 3, side, side, dtype=torch.float64))
    handle.remove()

    assert step.updated
    assert step.plus.all()
    assert adapter.net.layer == layer
    assert len(reached) == 3  # the batch itself and its two views
    assert step.drops["preserve"].abs().max() > 0
    assert list(adapter.weights.params)[-1] == last
    after = adapter.model.state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved
    assert moved <= set(adapter.weights.params)
    assert len(moved) > 0.8 * len(adapter.weights.params)
    norms = {full for name, norm in norm_layers(model).items() for full in affine_names(name, norm)}
    assert moved <= norms


def test_units_are_the_coarsest_level_with_four_parts():
    def stage(blocks):
        return nn.Sequential(*[nn.Sequential(nn.Conv2d(4, 4, 1), nn.GroupNorm(2, 4)) for _ in range(blocks)])

    three = nn.Sequential(nn.Conv2d(3, 4, 1), stage(3), stage(3), stage(3))
    assert units(three) == [f"{s}.{b}" for s in (1, 2, 3) for b in range(3)]
    assert adapted_parameters(three, 0.25)[-1] == "3.0.1.bias"  # two of nine blocks are left alone
    wrapped = nn.Sequential(nn.Sequential(three))
    assert units(wrapped) == [f"0.0.{name}" for name in units(three)]
    assert units(nn.Sequential(nn.Linear(4, 4))) == []


def test_all_of_a_small_net_adapts():
    tiny = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
    assert adapted_parameters(tiny, 0.25) == ["1.weight", "1.bias", "4.weight", "4.bias"]
    assert style_layer(tiny) == "1"


@pytest.mark.parametrize(
    "norm",
    [
        nn.BatchNorm1d(8),
        nn.BatchNorm2d(8),
        nn.BatchNorm3d(8),
        nn.SyncBatchNorm(8),
        nn.GroupNorm(2, 8),
        nn.LayerNorm(8),
        nn.InstanceNorm2d(8, affine=True),
        nn.RMSNorm(8),
        BatchNormAct2d(8),
        GroupNormAct(8, 2),
        LayerNorm2d(8),
        RmsNorm(8),
        RmsNorm2d(8),
        EvoNorm2dS0(8),
    ],
    ids=lambda norm: f"{type(norm).__module__.split('.')[0]} {type(norm).__name__}",
)
def test_norm_classes_are_known(norm):
    assert is_norm(norm)
    assert affine_names("here", norm)[0] == "here.weight"


def test_what_is_no_norm_layer():
    others = [nn.Linear(4, 4), nn.Conv2d(3, 4, 1), nn.PReLU(4), nn.Embedding(4, 4), nn.Sequential(nn.LayerNorm(4))]
    assert not any(map(is_norm, others))
    assert affine_names("here", nn.InstanceNorm2d(8)) == []


@pytest.mark.parametrize("net", [nn.BatchNorm1d, nn.BatchNorm3d, nn.SyncBatchNorm])
def test_other_dimensions_and_synchronised_norms_adapt(net):
    dims = {nn.BatchNorm1d: 1, nn.BatchNorm3d: 3, nn.SyncBatchNorm: 2}[net]
    conv = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    torch.manual_seed(0)
    model = nn.Sequential(conv(3, 8, 3), net(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4**dims, 10))
    adapter = dualtta.adapt(model, "tent", lr=0.1)
    assert adapter.step(torch.randn(4, 3, *[6] * dims)).updated
    assert not torch.equal(adapter.weights.params["1.weight"], model[1].weight)


class Stages(nn.Module):
    """Four stages of a kind, and how to go through one."""

    def __init__(self, kind):
        super().__init__()
        self.stages, self.head = nn.ModuleList(kind(i, o) for i, o in pairwise((3, 8, 8, 8, 8))), nn.Linear(8, 10)

    def forward(self, x):
        for stage in self.stages:
            x = stage.through(x)
        return self.head(x.mean((2, 3)))


class Listed(nn.ModuleList):
    """A list of its blocks, that nobody calls."""

    def __init__(self, i, o):
        super().__init__([block(i, o), block(o, o), nn.Identity()])

    def through(self, x):
        return self[1](self[0](x))


class Held(Listed):
    """A list that somebody calls."""

    def forward(self, x):
        return Listed.through(self, x)

    def through(self, x):
        return self(x)


class Named(nn.Module):
    """Parts by name, that nobody calls together."""

    def __init__(self, i, o):
        super().__init__()
        self.first, self.second = block(i, o), block(o, o)

    def through(self, x):
        return self.second(self.first(x))


class Maps(nn.Module):
    """Several maps, as HRNet's stages give."""

    def __init__(self, i, o):
        super().__init__()
        self.parts = nn.ModuleList([block(i, o), block(i, o)])

    def forward(self, x):
        return [part(x) for part in self.parts]

    def through(self, x):
        return sum(self(x))


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(2, o), nn.ReLU())


@pytest.mark.parametrize(
    ("kind", "layer"), [(Listed, "stages.0.1"), (Held, "stages.0"), (Named, "stages.0.second"), (Maps, "stages.0")]
)
def test_the_default_style_layer_is_one_that_gives_a_map(kind, layer):
    steps = []
    for speed in ("safe", "naive"):
        torch.manual_seed(0)
        adapter = dualtta.adapt(Stages(kind), "dualtta", speed=speed, tau_sa=-1.0)
        steps.append(adapter.step(torch.randn(6, 3, 8, 8)))
        assert adapter.layer == layer
    assert steps[1].drops["preserve"].abs().max() > 0
    torch.testing.assert_close(steps[0].drops["preserve"], steps[1].drops["preserve"], equal_nan=True)


def test_learning_rates_follow_the_norm():
    vit = timm.create_model("vit_tiny_patch16_224")
    assert DualTTA.rates[layer_norm_only(vit)] == 1e-4
    assert DualTTA.rates[layer_norm_only(plain())] == 5e-4
    assert dualtta.adapt(vit).lr == DualTTASafe.rates[1] == 1e-3  # the mean's steps are small
    assert dualtta.adapt(plain()).lr == DualTTASafe.rates[0] == 5e-4


def test_channel_axes():
    block = nn.Sequential(nn.Conv2d(4, 8, 1), nn.BatchNorm2d(8))
    assert channel_axis(block, torch.zeros(2, 8, 5, 5)) == 1
    assert channel_axis(block, torch.zeros(2, 8, 8, 8)) == 1  # the convolution decides a tie
    assert channel_axis(nn.LayerNorm(8), torch.zeros(2, 5, 5, 8)) == -1
    assert channel_axis(nn.LayerNorm(8), torch.zeros(2, 8, 8)) == -1
    assert channel_axis(nn.ReLU(), torch.zeros(2, 8, 5, 5)) == 1
    assert channel_axis(nn.Linear(4, 8), torch.zeros(2, 8)) == 1


def test_prefix_tokens():
    registers = timm.create_model("vit_small_patch14_reg4_dinov2", img_size=56)
    assert prefix_tokens(registers, torch.zeros(1, 21, 384)) == 5
    wide = timm.create_model("vit_tiny_patch16_224", img_size=(224, 256))  # 14 * 16 + 1 tokens make a square
    assert prefix_tokens(wide, torch.zeros(1, 225, 192)) == 1
    joining_later = timm.create_model("cait_xxs24_224", img_size=64)
    assert prefix_tokens(joining_later, torch.zeros(1, 16, 192)) == 0


# the step: torch's own, whatever the layout of a gradient


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.flat = nn.Parameter(torch.arange(4.0))
        self.turned = nn.Parameter(torch.arange(6.0).reshape(3, 2).t())
        self.narrow = nn.Parameter(torch.arange(5.0).bfloat16())
        self.part = nn.Parameter(torch.arange(6.0).reshape(2, 3)[:, :2])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_gradients_of_any_layout_are_stepped_as_torch_steps_them(momentum):
    def loss(model):
        turned, part = model.turned * torch.arange(6.0).reshape(2, 3), model.part * torch.arange(4.0).reshape(2, 2)
        return model.flat.sum() + turned.sum() + part.sum() + model.narrow.float().sum()

    ours, theirs = Odd(), Odd()
    theirs.narrow.data = theirs.narrow.data.float()
    weights = Weights(ours, {"flat", "turned", "narrow", "part"})
    optimizer, reference = SGD(weights, 0.1, momentum), torch.optim.SGD(theirs.parameters(), 0.1, momentum=momentum)
    for _ in range(3):
        uphill = loss(ours)
        with torch.no_grad():
            optimizer.backward(uphill)
            optimizer.step()
            optimizer.publish()
        reference.zero_grad()
        loss(theirs).backward()
        reference.step()
    for name, value in theirs.named_parameters():
        torch.testing.assert_close(weights.values()[name], value.detach())
        torch.testing.assert_close(ours.get_parameter(name).float(), value.detach(), atol=0.02, rtol=0.01)  # bfloat16's
