"""What BatchNorm normalises by: the batch, the source, a blend; a batch of one; sub-batches."""

import math

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import dualtta
from dualtta.model.batchnorm import BatchNormStatistics
from dualtta.testing import same, small_net, small_stream

NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
ALL = {"tau_sa": -1, "tau_sp": 1}  # thresholds that let every sample into D+


def test_a_batch_of_one_goes_by_the_source_statistics():
    model, x = small_net("batch").eval(), small_stream()[0][:1]
    assert torch.equal(dualtta.adapt(model, "norm")(x), model(x))


@pytest.mark.parametrize("statistics", ["source", 0.5, "batch"])
def test_the_style_of_single_samples_varies_over_the_stream_whatever_batch_norm_goes_by(statistics):
    adapter = dualtta.adapt(small_net("batch"), "dualtta", statistics=statistics, **ALL)
    drops = [adapter.step(x[None]).drops["preserve"].abs().item() for x in small_stream()[0][:6]]
    assert drops[0] < 1e-6  # nothing to compare the first with
    assert min(drops[1:]) > 1e-6
    assert adapter.memory["preserve.count"] == 6


def test_a_sub_batch_of_one_goes_by_its_own_statistics_whatever_its_size():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 16), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 10))  # one value a channel
    nn.init.normal_(model[3].weight, std=5.0)
    model, x = model.double(), small_stream()[0].double()
    p = dualtta.adapt(model, "norm")(x).softmax(1)
    lowest, second = (-(p * p.log()).sum(1)).sort().values[:2].tolist()
    step = dualtta.adapt(model, "deyo", tau_ent=(lowest + second) / 2 / math.log(10)).step(x)
    looked = ~step.drops["alter"].isnan()
    assert looked.sum() == 1
    alone = model[3](model[1].bias)  # by its own statistics, one value a channel becomes zero, then the shift
    k = step.logits[looked].argmax()
    torch.testing.assert_close(step.drops["alter"][looked][0], p[looked][0, k] - alone.softmax(0)[k])


def test_statistics_blend_between_source_and_batch():
    model, x = small_net("batch"), small_stream()[0]
    by = {share: dualtta.adapt(model, "norm", statistics=share)(x) for share in ("source", 0.0, 0.5, 1.0, "batch")}
    torch.testing.assert_close(by[0.0], by["source"])
    torch.testing.assert_close(by[1.0], by["batch"], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(by[0.5], by["batch"], atol=1e-2)
    assert not torch.allclose(by[0.5], by["source"], atol=1e-2)


def test_a_blend_leaves_running_statistics_and_hooks_as_they_were():
    model = small_net("batch")
    adapter = dualtta.adapt(model, "dualtta", statistics=0.5, lr=0.1, **ALL)
    assert adapter.step(small_stream()[0]).updated
    assert same(dict(adapter.model.named_buffers()), dict(model.named_buffers()))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in adapter.model.modules())


def blend(x, norm, share):
    """BatchNorm by a blend, spelt out."""
    others, wide = [i for i in range(x.ndim) if i != 1], [-1] + [1] * (x.ndim - 2)
    mean = (1 - share) * norm.running_mean + share * x.mean(others)
    var = (1 - share) * norm.running_var + share * x.var(others, correction=0)
    hat = (x - mean.reshape(wide)) / (var.reshape(wide) + norm.eps).sqrt()
    return hat * norm.weight.reshape(wide) + norm.bias.reshape(wide)


def normalised(x, norm, share):
    with BatchNormStatistics([norm], share).applied(single=False):
        return norm(x)


def batch_norm(double=False):
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3).double().eval() if double else nn.BatchNorm2d(3).eval()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2)
    return norm


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_blend_and_its_gradients_are_those_of_its_formula(share, size, layout):
    norm, x = batch_norm(double=True), torch.randn(size, 3, 5, 5).double().to(memory_format=layout).requires_grad_()
    ours, theirs = normalised(x, norm, share), blend(x, norm, share)
    torch.testing.assert_close(ours, theirs)
    inputs, weight = (x, norm.weight, norm.bias), torch.randn_like(x)
    for a, b in zip(*(torch.autograd.grad((y * weight).sum(), inputs) for y in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b)


NORMS = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NO_CUDA)])
@pytest.mark.parametrize("shape", [(16, 3, 9, 9), (1, 3, 9, 9), (64, 3), (16, 3, 9), (4, 3, 5, 5, 5)])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_blend_of_every_kind_and_its_gradients_are_those_of_its_formula(kind, last, shape, device):
    torch.manual_seed(0)
    norm, x = NORMS[len(shape)](3).eval().to(device), torch.randn(shape)
    norm.running_mean.normal_()
    x = (x.movedim(1, -1).contiguous().movedim(-1, 1) if last else x).to(device, kind).requires_grad_()
    ours, theirs = normalised(x, norm, 0.3), blend(x.float(), norm, 0.3)
    near = 2e-2 if kind is torch.bfloat16 else 1e-4
    torch.testing.assert_close(ours.float(), theirs, rtol=near, atol=near)
    weight, inputs = torch.randn_like(x), (x, norm.weight, norm.bias)
    (a, *sums), (b, *others) = (torch.autograd.grad((y * weight).sum(), inputs) for y in (ours, theirs))
    torch.testing.assert_close(a, b, rtol=near, atol=near)
    torch.testing.assert_close(sums, others, rtol=near, atol=near * (x.numel() / 3) ** 0.5)  # of so many rounded values


def test_a_blend_on_a_narrow_or_flat_input_is_the_same_blend():
    norm, x = batch_norm(), torch.randn(4, 3, 5, 5)
    torch.testing.assert_close(normalised(x.bfloat16(), norm, 0.5).float(), normalised(x, norm, 0.5), rtol=2e-2, atol=2e-2)
    flat = nn.BatchNorm1d(3).eval()
    torch.testing.assert_close(normalised(x[:, :, 0, 0], flat, 0.5), normalised(x[:, :, :1, 0], flat, 0.5)[:, :, 0])
    assert normalised(torch.zeros(4, 3, 5, 5), norm, 1.0).isfinite().all()
    far = nn.functional.batch_norm(x.double() + 3000, None, None, training=True)
    torch.testing.assert_close(normalised(x + 3000, norm, 1.0).double(), far, rtol=0, atol=1e-2)
    torch.testing.assert_close(normalised(x.to(memory_format=torch.channels_last), norm, 0.5), normalised(x, norm, 0.5))


def test_a_narrow_input_far_from_the_source_is_no_less_exact():
    norm, x = batch_norm(), torch.randn(64, 3, 5, 5)
    norm.running_mean.fill_(30)
    narrow = x.bfloat16()
    torch.testing.assert_close(
        normalised(narrow, norm, 0.9).float(), normalised(narrow.float(), norm, 0.9), rtol=1e-2, atol=1e-2
    )


def test_a_layer_that_fails_under_a_blend_keeps_its_source_statistics_and_no_hook():
    norm = batch_norm()
    mean = norm.running_mean
    with pytest.raises(ValueError, match="4D"), BatchNormStatistics([norm], 0.5).applied(single=False):
        norm(torch.randn(4, 3))
    assert norm.running_mean is mean
    assert not norm._forward_pre_hooks
    assert not norm._forward_hooks


def test_an_interrupt_while_a_blend_is_in_place_leaves_the_source_statistics(monkeypatch):
    norm = batch_norm()
    mean = norm.running_mean

    def interrupted(x):
        assert norm.running_mean is not mean
        raise KeyboardInterrupt

    monkeypatch.setattr(norm, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt), BatchNormStatistics([norm], 0.5).applied(single=False):
        norm(torch.randn(4, 3, 5, 5))
    assert norm.running_mean is mean


@pytest.mark.parametrize("before", [True, False])
def test_a_layer_whose_forward_the_user_wraps_keeps_the_wrapping(before):
    norm, x = batch_norm(), torch.randn(4, 3, 5, 5)
    plain, own, early = normalised(x, norm, 0.5), norm.forward, BatchNormStatistics([norm], 0.5)
    norm.forward = wrapped = lambda x: own(x) + 1
    with (BatchNormStatistics([norm], 0.5) if before else early).applied(single=False):
        torch.testing.assert_close(norm(x), plain + 1)
    assert norm.forward is wrapped


def test_a_layer_that_is_called_by_keyword_takes_a_blend_too():
    norm, x = batch_norm(), torch.randn(4, 3, 5, 5)
    with BatchNormStatistics([norm], 0.5).applied(single=False):
        assert torch.equal(norm(input=x), norm(x))


def test_nothing_of_the_batch_is_the_source_whatever_the_batch_holds():
    model, x = small_net("batch"), small_stream()[0]
    loud = torch.cat([x, torch.full_like(x[:1], 1e30)])
    kept = dualtta.adapt(model, "norm", statistics=0.0)(loud)[:-1]
    assert torch.equal(kept, dualtta.adapt(model, "norm", statistics="source")(loud)[:-1])
    assert kept.isfinite().all()


class Checkpointed(nn.Module):
    """Forwards its norm layer again in the backward, where it is asked to."""

    def __init__(self):
        super().__init__()
        self.below, self.body = nn.Conv2d(3, 8, 3), nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.above = nn.Sequential(nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
        self.again = False

    def forward(self, x):
        x = self.below(x)
        return self.above(checkpoint(self.body, x, use_reentrant=False) if self.again else self.body(x))


@pytest.mark.parametrize("size", [1, 8])
@pytest.mark.parametrize("statistics", [None, "batch", 0.3])
@pytest.mark.parametrize("method", ["tent", "sar"])
def test_gradient_checkpointing_in_a_model_changes_nothing(method, statistics, size):
    torch.manual_seed(0)
    model, x = Checkpointed().double(), small_stream()[0][:size].double()
    plain, other = (dualtta.adapt(model, method, statistics=statistics, lr=0.1) for _ in range(2))
    other.model.again = True
    for _ in range(3):
        torch.testing.assert_close(other.step(x).logits, plain.step(x).logits)
    torch.testing.assert_close(other.weights.values(), plain.weights.values())


@pytest.mark.parametrize("statistics", [None, "batch"])
def test_the_model_predicts_as_the_adapter_does_whatever_came_before(statistics):
    adapter, x = dualtta.adapt(small_net("batch"), "norm", statistics=statistics), small_stream()[0]
    adapter(x[:1])
    assert torch.equal(adapter.model(x), adapter.predict(x))


def test_batch_statistics_that_are_asked_for_are_used_for_a_batch_of_one_too():
    model, x = small_net("batch"), small_stream()[0][:1]
    by_own = dualtta.adapt(model, "norm", statistics="batch")(x)
    torch.testing.assert_close(by_own, dualtta.adapt(model, "norm")(torch.cat([x, x]))[:1])
    assert not torch.allclose(by_own, dualtta.adapt(model, "norm")(x), atol=1e-3)
