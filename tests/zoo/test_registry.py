"""Models by name: architecture, preprocessing, number of classes and weights."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn

from dualtta.data import open_dataset
from dualtta.model.norms import norm_layers
from dualtta.zoo.registry import MODELS, find_model, open_model


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("vit_base_patch16_224", "resnet50_gn")])
def test_every_model_predicts_and_has_norm_layers(name):
    model, preprocess = open_model(name, 7)
    size = preprocess.size or (28 if name == "resnet_tiny" else 32)
    with torch.no_grad():
        assert model(torch.zeros(1, 3, size, size)).shape == (1, 7)
    assert norm_layers(model)
    assert not model.training


@pytest.mark.parametrize(
    ("name", "tag", "kind", "mean", "crop"),
    [
        ("resnet18", "resnet18.tv_in1k", nn.BatchNorm2d, 0.485, 0.875),
        ("resnet50", "resnet50.tv_in1k", nn.BatchNorm2d, 0.485, 0.875),
        ("resnet50_gn", "resnet50_gn.a1h_in1k", nn.GroupNorm, 0.485, 0.94),
        ("vit_base_patch16_224", "vit_base_patch16_224.augreg_in21k_ft_in1k", nn.LayerNorm, 0.5, 0.9),
    ],
)
def test_the_papers_backbones_have_their_preprocessing_and_fixed_weights(name, tag, kind, mean, crop):
    spec = MODELS[name]
    published = timm.get_pretrained_cfg(tag)
    assert (spec.tag, spec.preprocess.size, spec.preprocess.crop) == (tag, 224, crop)
    assert spec.preprocess.mean[0] == mean == published.mean[0]
    assert spec.preprocess.std == tuple(published.std)
    assert spec.preprocess.interpolation == published.interpolation
    assert spec.head == published.classifier
    with torch.device("meta"):
        net = spec.build(1000)
        assert net.state_dict().keys() == timm.create_model(tag).state_dict().keys()
    assert all(isinstance(norm, kind) for norm in norm_layers(net).values())


def test_any_timm_model_opens_by_its_name_with_its_own_preprocessing():
    named, preprocess = open_model("timm:test_vit.r160_in1k", 5)
    plain, same = open_model("test_vit", 5)
    assert type(named) is type(plain)
    assert preprocess == same
    assert (preprocess.size, preprocess.mean) == (160, (0.5, 0.5, 0.5))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("resnet51", "there is no model 'resnet51'; did you mean 'resnet5"),
        ("timm:", "there is no model 'timm:'"),
        ("nothing_like_it", "there are: resnet18"),
        ("resnet34.nope_in1k", "timm has no weights 'resnet34.nope_in1k'; it has: resnet34."),
    ],
)
def test_unknown_models_are_rejected_with_the_nearest_name(name, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        find_model(name)


def test_a_head_of_another_size_is_an_error_unless_it_is_to_be_replaced(tmp_path, tiny):
    save_file(tiny(10).state_dict(), tmp_path / "ten.safetensors")
    with pytest.raises(ValueError, match=r"is for 10 classes, not 7: .*new_head=True"):
        open_model("resnet_tiny", 7, tmp_path / "ten.safetensors")
    model, _ = open_model("resnet_tiny", 7, tmp_path / "ten.safetensors", new_head=True)
    assert model.fc.out_features == 7
    assert torch.equal(model.conv1.weight, tiny(10).conv1.weight)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (torch.tensor(1.0), r"it lacks fc\.weight"),
        (torch.zeros(10**12, 0), "declares 1000000000000 classes"),
        (torch.zeros(1).expand(10**12, 128), "declares 1000000000000 classes"),
        (torch.zeros(10, 64), r"fc\.weight is \(10, 64\), not \(10, 128\)"),
    ],
)
def test_a_head_that_no_classifier_has_is_an_error_and_nothing_is_built_by_it(tmp_path, head, says, tiny):
    torch.save({**tiny(10).state_dict(), "fc.weight": head}, tmp_path / "odd.pt")
    with pytest.raises(ValueError, match=says):
        open_model("resnet_tiny", None, tmp_path / "odd.pt")


def test_weights_of_another_net_are_refused_by_name_or_by_shape(tmp_path, tiny):
    save_file(tiny().state_dict(), tmp_path / "tiny.safetensors")
    with pytest.raises(ValueError, match=r"another model: it lacks layer1\.1\..*, and it has layer2\.0\.around"):
        open_model("resnet18", 10, tmp_path / "tiny.safetensors")
    wide = {**tiny().state_dict(), "conv1.weight": torch.zeros(32, 3, 3, 3)}
    save_file(wide, tmp_path / "wide.safetensors")
    with pytest.raises(ValueError, match=r"conv1\.weight is \(32, 3, 3, 3\), not \(16, 3, 3, 3\)"):
        open_model("resnet_tiny", 10, tmp_path / "wide.safetensors")
    save_file({**tiny().state_dict(), "fc.bias": torch.full((10,), torch.nan)}, tmp_path / "nan.safetensors")
    with pytest.raises(ValueError, match=r"fc\.bias holds NaN"):
        open_model("resnet_tiny", 10, tmp_path / "nan.safetensors")


def test_resnet50_v1_loads_its_published_layout_and_strides_early(tmp_path):
    spec = MODELS["resnet50_v1"]
    state = {k: v.half() if v.is_floating_point() and v.dim() > 1 else v for k, v in spec.build(1000).state_dict().items()}
    torch.save(state, tmp_path / "resnet50_v1_fp16.pt")
    model, preprocess = open_model("resnet50_v1", None, tmp_path / "resnet50_v1_fp16.pt")
    assert model.fc.out_features == 1000
    assert preprocess.mean == (0.48502, 0.45796, 0.40760)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert {m.eps for m in model.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}
    for stage, stride in ((model.layer1, 1), (model.layer2, 2), (model.layer3, 2), (model.layer4, 2)):
        assert (stage[0].conv1.stride, stage[0].conv2.stride, stage[0].downsample[0].stride) == (
            (stride, stride),
            (1, 1),
            (stride, stride),
        )


def test_efficientnet_lite0_loads_its_published_keys_in_order(tmp_path):
    own = MODELS["efficientnet_lite0"].build(1000).state_dict()
    theirs = {f"_part{number}.{name.rpartition('.')[2]}": value for number, (name, value) in enumerate(own.items())}
    torch.save(theirs, tmp_path / "efficientnet_lite0.pth")
    model, preprocess = open_model("efficientnet_lite0", None, tmp_path / "efficientnet_lite0.pth")
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())
    assert (preprocess.mean, preprocess.interpolation) == ((0.5, 0.5, 0.5), "bicubic")
    save_file(own, tmp_path / "own.safetensors")  # its own keys, sorted by safetensors
    again, _ = open_model("efficientnet_lite0", 1000, tmp_path / "own.safetensors")
    assert all(torch.equal(value, own[name]) for name, value in again.state_dict().items())


@pytest.mark.parametrize(
    ("name", "file"), [("resnet50_v1", "resnet50_v1_fp16.pt"), ("efficientnet_lite0", "efficientnet_lite0.pth")]
)
def test_real_weights_know_imagenet(name, file):
    root = Path(os.environ.get("DUALTTA_DATA") or "nowhere")
    if not (root / "weights" / file).is_file() or not (root / "imagenet-val").is_dir():
        pytest.skip("DUALTTA_DATA names no folder with weights/ and imagenet-val/")
    model, preprocess = open_model(name, None, root / "weights" / file)
    data = open_dataset("imagenet", root / "imagenet-val")
    rows = np.linspace(0, len(data) - 1, 48).astype(int)
    with torch.no_grad():
        found = model(torch.stack([preprocess(data.image(int(row))) for row in rows])).argmax(1).numpy()
    assert np.mean(found == data.labels[rows]) > 0.55  # 74.7 and 74.5 % of all; four deviations below, on 48


def test_a_number_of_classes_comes_from_the_weights_or_must_be_given(tmp_path):
    with pytest.raises(ValueError, match="needs a number of classes"):
        open_model("resnet_tiny")
    with pytest.raises(ValueError, match="at least two classes, not 1"):
        open_model("resnet_tiny", 1)
    save_file({"conv1.weight": torch.zeros(16, 3, 3, 3)}, tmp_path / "headless.safetensors")
    with pytest.raises(ValueError, match=r"another model: it lacks fc\.weight"):
        open_model("resnet_tiny", None, tmp_path / "headless.safetensors")


MODULE = """
from torch import nn
from dualtta.data.preprocess import Preprocess
from dualtta.zoo.registry import ModelSpec

def build(classes):
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes))

net = ModelSpec("a net of another package", build, Preprocess(size=32), head="4")
"""


@pytest.mark.slow
def test_a_package_registers_its_model_and_a_broken_entry_is_a_warning(tmp_path):
    (tmp_path / "my_net.py").write_text(MODULE)
    info = tmp_path / "my_net-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-net\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[dualtta.models]\nmy_net = my_net:net\nbroken = my_net:missing\nresnet18 = my_net:net\n"
    )
    check = (
        "from dualtta.zoo.registry import MODELS, open_model\nmodel, preprocess = open_model('my_net', 3)\n"
        "assert preprocess.size == 32 and model[4].out_features == 3\nassert MODELS['resnet18'].tag and 'broken' not in MODELS"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    command = [sys.executable, "-c", check]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "the model 'broken' of my_net:missing does not load" in done.stderr


def test_models_of_torchvision_open_by_name_with_their_preprocessing(tmp_path):
    model, preprocess = open_model("torchvision:mobilenet_v3_small", 5)
    assert (preprocess.size, preprocess.crop, preprocess.interpolation) == (224, 0.875, "bilinear")
    torch.save(model.state_dict(), tmp_path / "five.pt")
    again, _ = open_model("torchvision:mobilenet_v3_small", None, tmp_path / "five.pt")  # the head is found
    assert again.classifier[3].out_features == 5
    with pytest.raises(ValueError, match="torchvision has no classifier 'resnet19'; did you mean 'resnet18'"):
        find_model("torchvision:resnet19")
