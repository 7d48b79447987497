"""Which savings are exact on a model: found out on one batch, never assumed.

Samples that do not influence each other can be forwarded in part; a forward can start at an inner layer if nothing but that
layer's output carries the batch further up.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from dualtta.model.forward import Net


@dataclass(frozen=True)
class Shortcuts:
    """What leaves every result as it is."""

    independent: bool = False  # a part of a batch gives what it gives within the whole
    above: bool = False  # a view of a feature map can start at its layer

    def __and__(self, other: "Shortcuts") -> "Shortcuts":
        return Shortcuts(self.independent and other.independent, self.above and other.above)


NONE = Shortcuts()
LONE = Shortcuts(independent=True, above=True)  # a single sample has nobody to be influenced by


def agree(a: Tensor, b: Tensor, *, closely: bool = False) -> bool:
    """Whether two results for the same samples differ by rounding alone: by less than the root of the precision.

    `closely`: both come of passes of the same shape, which round alike, so that a fainter influence shows.

    >>> agree(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.00001]])), agree(torch.zeros(1, 2), torch.ones(1, 2))
    (True, False)
    >>> agree(torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 2.00001]]), closely=True)
    False
    """
    finite = a[a.isfinite()]
    if a.shape != b.shape or not len(finite):
        return False
    fine = torch.finfo(a.dtype).eps
    if a.is_cuda and a.dtype == torch.float32 and not closely:
        fine = 2.0**-11  # convolutions in TF32
    if torch.is_autocast_enabled(a.device.type) and not closely:
        fine = max(fine, torch.finfo(torch.get_autocast_dtype(a.device.type)).eps)
    gap = torch.where(a == b, 0.0, (a - b).abs()).amax()  # logits of -inf, masked out, are equal
    allowed = min(16 * fine, 2.0**-8) if closely else fine**0.5
    return bool(gap <= allowed * finite.abs().amax())


def holds(test: Callable[[], bool]) -> bool:
    """What a test says; False where the model cannot take what it is tested on, such as a batch of another size."""
    try:
        return test()
    except ValueError:
        return False


def find(net: "Net", x: Tensor, names: set[str]) -> Shortcuts:
    """Which shortcuts are exact for a net on this batch, with views at these layers."""
    logits, maps = net.tapped(x, names)
    if maps.keys() != names:
        logits, maps = net.tapped(x, names)  # now it is known whose output is overwritten

    half, few = len(x) // 2, x[:2]

    def steady() -> bool:
        return agree(net(few), net(few), closely=True)  # no noise, nothing counted

    def free() -> bool:
        loudness = torch.tensor([0, 3, -1]).repeat(len(x))[: len(x)].to(x)  # nobody's may be felt by another
        company = x.roll(1, 0) * loudness.reshape(-1, *[1] * (x.ndim - 1))
        first, last = net(torch.cat([x[:half], company[half:]])), net(torch.cat([company[:half], x[half:]]))
        felt = not agree(torch.cat([first[:half], last[half:]]), logits, closely=True)
        return not felt and all(agree(net(x[:size]), logits[:size]) for size in {1, 2, 3, half})

    def starts() -> bool:
        same = (agree(net.above(name, z, 0.5 * x), logits, closely=True) for name, z in maps.items())
        return maps.keys() == names and all(same)

    if not holds(steady):
        return NONE
    return Shortcuts(independent=not net.coupled() and holds(free), above=holds(starts))
