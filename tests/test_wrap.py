"""`dualtta.adapt`: what it and its adapter reject, with an error that names the way out, and without changing anything."""

import math
import warnings

import pytest
import torch
from torch import nn

import dualtta
from dualtta.probe import FiniteCheck
from dualtta.testing import same, small_net, small_stream

ALL = {"tau_sa": -1, "tau_sp": 1}  # thresholds that select every sample for D+


def test_one_logit_is_not_enough():
    with pytest.raises(ValueError, match="two classes or more"):
        dualtta.adapt(small_net(classes=1), "tent")(small_stream()[0])
    both = dualtta.adapt(small_net(classes=1), "tent", logits=lambda z: torch.cat([torch.zeros_like(z), z], 1))
    assert both(small_stream()[0]).shape == (16, 2)


def test_a_model_without_norm_layers_gets_an_error_that_says_what_to_do():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 10))
    with pytest.raises(ValueError, match=r"no norm layer.*parameters=.*method='source'"):
        dualtta.adapt(model)
    x = small_stream()[0]
    assert torch.equal(dualtta.adapt(model, "source")(x), model(x))
    adapter = dualtta.adapt(model, "tent", lr=0.1, parameters=["*.bias"])
    assert adapter.step(x).updated
    assert not torch.equal(adapter.weights.params["0.bias"], model[0].bias)


def test_a_layer_that_is_not_reached_is_named():
    class Detour(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = small_net(), nn.LayerNorm(4)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ValueError, match="does not reach the layer 'unused'"):
        dualtta.adapt(Detour(), layer="unused").step(small_stream()[0])


@pytest.mark.parametrize(
    ("x", "says"),
    [
        (torch.zeros(0, 3, 16, 16), "the batch is empty"),
        (torch.zeros(3), "must be a batch"),
        ([1, 2], "must be a batch, a tensor .* not list"),
        (torch.full((2, 3, 16, 16), torch.nan), "NaN or Inf"),
        (torch.full((2, 3, 16, 16), torch.inf), "NaN or Inf"),
        (torch.zeros(2, 1, 16, 16), r"failed on an input of shape \(2, 1, 16, 16\)"),
        (torch.zeros(2, 3, 16, 16, dtype=torch.uint8), "torch.uint8"),
    ],
)
def test_bad_input_is_one_clear_error_and_changes_nothing(x, says):
    adapter = dualtta.adapt(small_net(), "dualtta", lr=0.1, **ALL)
    adapter(small_stream()[0])
    before, memory = adapter.weights.values(), dict(adapter.memory)
    for call in (adapter, adapter.step, adapter.predict):
        with pytest.raises(ValueError, match=says):
            call(x)
    assert same(adapter.weights.values(), before)
    assert same(dict(adapter.memory), memory)


def test_a_batch_whose_sum_overflows_is_no_bad_batch():
    FiniteCheck(torch.full((2, 3, 16, 16), torch.finfo(torch.float32).max)).check()


def test_a_single_image_without_batch_axis_is_refused():
    with pytest.raises(ValueError, match=r"x\[None\]|failed on an input"):
        dualtta.adapt(small_net())(torch.zeros(3, 16, 16))


@pytest.mark.parametrize("bad", [{"lr": 0}, {"lr": -1.0}, {"momentum": 1.0}, {"statistics": "both"}, {"statistics": 2.0}])
def test_bad_options_are_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} must be"):
        dualtta.adapt(small_net(), **bad)


def test_what_is_no_model_is_refused():
    with pytest.raises(ValueError, match=r"torch\.nn\.Module, not str"):
        dualtta.adapt("resnet50")


def test_a_forward_without_gradient_is_named():
    class Cut(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_net()

        def forward(self, x):
            with torch.no_grad():
                return self.inner(x)

    with pytest.raises(ValueError, match="no gradient comes through"):
        dualtta.adapt(Cut(), "tent")(small_stream()[0])


def test_what_cannot_be_copied_says_how_to_go_on():
    import threading

    model = small_net()
    model.lock = threading.Lock()
    with pytest.raises(ValueError, match="copy=False"):
        dualtta.adapt(model, "tent")
    assert dualtta.adapt(model, "tent", copy=False).step(small_stream()[0]).updated


def test_a_layer_whose_first_axis_is_not_the_batch_is_refused():
    class TokensFirst(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.head = nn.Conv2d(3, 8, 4, 4), nn.Linear(8, 10)
            self.blocks = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, batch_first=False) for _ in range(4)))

        def forward(self, x):
            return self.head(self.blocks(self.patches(x).flatten(2).permute(2, 0, 1)).mean(0))

    x = small_stream()[0]
    for speed in ("naive", "safe"):
        for part in (x[:5], x[:1]):
            with pytest.raises(ValueError, match=r"gives .* for a batch of \d+, not a feature map"):
                dualtta.adapt(TokensFirst(), "dualtta", speed=speed, tau_sa=-1.0, tau_sp=-1.0).step(part)
    assert len(dualtta.adapt(TokensFirst(), "dualtta", layer="patches")(x)) == len(x)


def test_lazy_layers_are_to_be_run_once_before():
    model = nn.Sequential(nn.LazyConv2d(8, 3), nn.GroupNorm(2, 8), nn.Flatten(), nn.LazyLinear(10))
    with pytest.raises(ValueError, match=r"call model\(x\) once"):
        dualtta.adapt(model, "tent")
    model(small_stream()[0])
    assert dualtta.adapt(model, "tent").step(small_stream()[0]).updated


@pytest.mark.parametrize(
    ("read", "says"),
    [
        (lambda z: {"logits": z}["logit"], "does not fit .* type Tensor: KeyError"),
        (lambda z: z.logits, "does not fit .* type Tensor: AttributeError"),
        (lambda z: z.long(), "returns torch.int64, not logits"),
        (lambda z: z.to(torch.complex64), "returns torch.complex64, not logits"),
    ],
)
def test_logits_that_cannot_be_read_are_refused(read, says):
    with pytest.raises(ValueError, match=says):
        dualtta.adapt(small_net(), logits=read)(small_stream()[0])


def test_torchscript_is_refused_with_the_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(small_net().eval(), small_stream()[0])
    for model in (scripted, nn.Sequential(small_net(), scripted)):
        with pytest.raises(ValueError, match="TorchScript"):
            dualtta.adapt(model, "tent")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lr": "a"}, "lr must be"),
        ({"lr": True}, "lr must be"),
        ({"lr": math.inf}, "lr must be"),
        ({"momentum": "x"}, "momentum must be"),
        ({"layer": 3}, "layer must be"),
        ({"seed": 1.5}, "seed must be"),
        ({"copy": "no"}, "copy must be True or False"),
        ({"copy": None}, "copy must be True or False"),
        ({"seed": 2**70}, "seed must be"),
        ({"parameters": 3}, "takes names or patterns"),
        ({"parameters": [torch.zeros(1)]}, "takes names or patterns"),
        ({"parameters": []}, "nothing that could adapt"),
        ({"method": None}, "a method is a name"),
        ({"method": nn.Linear(2, 2)}, "a method is a name"),
        ({"method": dualtta.Method}, "a method is a name"),
        ({"logits": 3}, "logits must be"),
        ({"fisher": 3}, "fisher must"),
        ({"statistics": True}, "statistics must be"),
        ({"method": "dualtta", "filter_sa": "no"}, "must be True or False"),
        ({"spare": 1.0}, "no norm layer .* outside the last 1 of its depth"),
    ],
)
def test_options_of_the_wrong_kind_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        dualtta.adapt(small_net(), **options)


def test_numpy_numbers_are_numbers():
    import numpy as np

    numbers = {"tau_sa": np.float32(0.3), "lr": np.float64(1e-3), "seed": np.uint64(2**64 - 1), "statistics": np.float32(0.5)}
    assert dualtta.adapt(small_net(), **numbers).step(small_stream()[0]) is not None


def test_draws_that_do_not_fit_are_refused():
    adapter, x = dualtta.adapt(small_net()), small_stream()[0]
    draws = adapter.step(x).draws
    with pytest.raises(ValueError, match="the batch has 4"):
        adapter.step(x[:4], draws=draws)
    with pytest.raises(ValueError, match="did you mean 'alter'"):
        adapter.step(x, draws={"altar": draws["alter"]})


def test_a_misspelt_option_of_adapt_is_hinted_at_like_a_setting():
    with pytest.raises(ValueError, match="no setting 'statistic'; did you mean 'statistics'"):
        dualtta.adapt(small_net("batch"), statistic=0.3)


def test_probabilities_in_place_of_logits_are_warned_of_once_and_their_logarithm_is_not():
    ends_in_softmax = nn.Sequential(small_net("group"), nn.Softmax(1))
    x = small_stream()[0]
    adapter = dualtta.adapt(ends_in_softmax)
    with pytest.warns(UserWarning, match="probabilities, not logits"):
        adapter(x)
    adapter(x)
    dualtta.adapt(ends_in_softmax, logits=lambda p: p.clamp_min(1e-12).log())(x)
    dualtta.adapt(ends_in_softmax, "source")(x)
