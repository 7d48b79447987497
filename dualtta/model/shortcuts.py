"""Which shortcuts are exact on a model: found on one batch, never assumed.

Where samples do not influence each other, a part of a batch can be forwarded alone. Where nothing but a layer's output carries
the batch further up, a forward can start at that layer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dualtta.model.features import find_layer
from dualtta.model.parameters import Buffers
from dualtta.views.base import FeatureView

if TYPE_CHECKING:
    from dualtta.model.forward import Net


@dataclass(frozen=True)
class Shortcuts:
    """Savings that change no result."""

    independent: bool = False  # a part of a batch gives the same logits alone as within the whole
    from_layer: bool = False  # a view of a feature map can start at its layer

    def __and__(self, other: "Shortcuts") -> "Shortcuts":
        return Shortcuts(self.independent and other.independent, self.from_layer and other.from_layer)


NONE = Shortcuts()
ALL = Shortcuts(independent=True, from_layer=True)


def examine(net: "Net", x: Tensor, views: Iterable[FeatureView]) -> None:
    """Find on this batch which shortcuts are exact for samples of its shape. The model stays as it was."""
    layers = {net.layer_of(view) for view in views}
    for layer in layers:
        find_layer(net.model, layer)
    before, buffers, micro, passes = net.forwarded, Buffers(net.model), net.micro_batch, net.passes
    net.micro_batch, net.passes = None, net.eager  # in micro-batches no sample could influence one of another part
    try:
        with torch.no_grad(), torch.random.fork_rng([x.device] if x.is_cuda else []):
            found = find(net, x, layers)
    finally:
        net.forwarded, net.micro_batch, net.passes = before, micro, passes
        buffers.assign({})
    if micro and not found.independent:
        raise ValueError("micro_batch= needs a model whose samples do not influence each other, and here they do")
    net.exact[x.shape[1:]] = found & net.exact.get(x.shape[1:], found)
    net.examined_on[x.shape[1:]] = len(x)


def find(net: "Net", x: Tensor, layers: set[str]) -> Shortcuts:
    """The exact shortcuts of a net on this batch, with views at these layers."""
    logits, maps = net.forward_with_features(x, layers)
    if maps.keys() != layers:
        logits, maps = net.forward_with_features(x, layers)  # now the net copies outputs that a later layer overwrites

    half, few = len(x) // 2, x[:2]

    def deterministic() -> bool:
        return agree(net(few), net(few), closely=True)  # no noise, no state that changes

    def independent() -> bool:
        scale = torch.tensor([0, 3, -1]).repeat(len(x))[: len(x)].to(x)  # samples of other sizes must not matter
        others = x.roll(1, 0) * scale.reshape(-1, *[1] * (x.ndim - 1))
        first, last = net(torch.cat([x[:half], others[half:]])), net(torch.cat([others[:half], x[half:]]))
        influenced = not agree(torch.cat([first[:half], last[half:]]), logits, closely=True)
        return not influenced and all(agree(net(x[:size]), logits[:size]) for size in {1, 2, 3, half})

    def starts() -> bool:
        same = (agree(net.forward_from(layer, z, 0.5 * x), logits, closely=True) for layer, z in maps.items())
        return maps.keys() == layers and all(same)

    if not succeeds(deterministic):
        return NONE
    return Shortcuts(independent=not net.coupled() and succeeds(independent), from_layer=succeeds(starts))


def succeeds(test: Callable[[], bool]) -> bool:
    """Whether a test succeeds; False where the model cannot take its input, such as a batch of another size."""
    try:
        return test()
    except ValueError:
        return False


def agree(a: Tensor, b: Tensor, *, closely: bool = False) -> bool:
    """Whether two results for the same samples differ by rounding alone: by less than the root of the precision.

    `closely`: both come from passes of the same shape, which round alike, so a smaller difference is an influence.

    >>> agree(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.00001]])), agree(torch.zeros(1, 2), torch.ones(1, 2))
    (True, False)
    >>> agree(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.00001]]), closely=True)
    False
    """
    finite = a[a.isfinite()]
    if a.shape != b.shape or not len(finite):
        return False
    precision = torch.finfo(a.dtype).eps
    if a.is_cuda and a.dtype == torch.float32 and not closely:
        precision = 2.0**-11  # convolutions in TF32
    if torch.is_autocast_enabled(a.device.type) and not closely:
        precision = max(precision, torch.finfo(torch.get_autocast_dtype(a.device.type)).eps)
    gap = torch.where(a == b, 0.0, (a - b).abs()).amax()  # logits of -inf, masked out, are equal
    allowed = min(16 * precision, 2.0**-8) if closely else precision**0.5
    return bool(gap <= allowed * finite.abs().amax())
