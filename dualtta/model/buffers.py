"""A model's buffers, by where they hang: a forward may change their values, or put other tensors in their place."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Buffers:
    """The buffers of a model, and their values at the time when this was made."""

    def __init__(self, model: nn.Module) -> None:
        self._own = dict(model.named_buffers())
        self.source = {name: buffer.detach().clone() for name, buffer in self._own.items()}
        parts = {name: name.rpartition(".") for name in self._own}
        self._homes = {name: (model.get_submodule(where), last) for name, (where, _, last) in parts.items()}

    def changed(self) -> dict[str, Tensor]:
        """Those that the model's own forward has changed since: few models have such."""
        now = {name: module._buffers[last] for name, (module, last) in self._homes.items()}
        return {n: b.detach().clone() for n, b in now.items() if b is not None and not same(b, self.source[n])}

    def assign(self, changed: Mapping[str, Tensor]) -> None:
        """Back to the first values, but for these."""
        with torch.no_grad():
            for name, (module, last) in self._homes.items():
                own, value = self._own[name], changed.get(name, self.source[name])
                fits = own.shape == value.shape and own.dtype == value.dtype
                module._buffers[last] = own.copy_(value) if fits else value.to(own.device, copy=True)


def same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)
