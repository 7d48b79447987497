"""A model with a replaceable style (channel means and deviations) of the feature map at one layer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from dualtta.model.features import channel_axis, prefix_tokens
from dualtta.model.forward import feature_map, with_feature_map
from dualtta.paper.theory.symbols import Pair, style
from dualtta.probe import widen
from dualtta.views.default import restyle

Change = Callable[[Tensor], Tensor]  # of a map's patches, (B, C, P)


class Restyled:
    """Forward passes of a model in evaluation mode that return or change the feature map at `layer`, by a forward hook."""

    def __init__(self, model: nn.Module, layer: str, read: Callable[[Any], Tensor] | None = None) -> None:
        self.model, self.layer, self.read = model, layer, read
        self.module = model.get_submodule(layer)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the patches of the map (B, C, P); differentiable with respect to the parameters."""
        seen: list[Tensor] = []

        def keep(patches: Tensor) -> Tensor:
            seen.append(patches)
            return patches

        with self._changing(keep, len(x)):
            logits = self._logits(x)
        if len(seen) != 1:
            raise ValueError(f"a forward pass calls the layer {self.layer!r} {len(seen)} times: name another with layer=")
        return logits, seen[0]

    def logits(self, x: Tensor, old: Pair, new: Pair) -> Tensor:
        """Logits with the style `old` of the map replaced by `new`; differentiable with respect to `new`."""
        columns = tuple((u[:, :, None], s[:, :, None]) for u, s in (old, new))
        with self._changing(lambda patches: restyle(patches.detach(), *columns), len(x)):
            return self._logits(x)

    def _logits(self, x: Tensor) -> Tensor:
        output = self.model(x)
        logits: Tensor = self.read(output) if self.read else output
        return widen(logits)

    @contextmanager
    def _changing(self, change: Change, size: int) -> Iterator[None]:
        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            return with_feature_map(output, self._through(feature_map(self.layer, output, size), change))

        handle = self.module.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()

    def _through(self, z: Tensor, change: Change) -> Tensor:
        channel = channel_axis(self.module, z)
        prefix = prefix_tokens(self.model, z) if z.ndim == 3 and channel == -1 else 0
        first = z.movedim(channel, 1)
        flat = first.flatten(2) if first.ndim > 2 else first[:, :, None]
        changed = torch.cat([flat[:, :, :prefix], change(flat[:, :, prefix:])], 2)
        return changed.reshape(first.shape).movedim(1, channel)


def check_independent(net: Restyled, x: Tensor) -> None:
    """A ValueError where a sample's logits depend on the others of its batch: per-sample gradients are not defined then."""
    with torch.no_grad():
        together, alone = net.forward(x)[0][:1], net.forward(x[:1])[0]
    tolerance = 1e3 * torch.finfo(together.dtype).eps * max(float(together.abs().max()), 1.0)
    if not torch.allclose(together, alone, rtol=0, atol=tolerance):
        raise ValueError(
            "the samples of a batch influence each other in this model, and the theory is about single samples: give its "
            "norm layers fixed statistics"
        )


def style_of(patches: Tensor) -> Pair:
    """The style of a map, as leaves that require a gradient."""
    u, s = style(patches.detach())
    return u.requires_grad_(), s.requires_grad_()
