"""The state of a model that adaptation touches: the parameters that adapt, and the buffers that the model's forward changes.

What moves the parameters is in `dualtta.optim`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property

import torch
from torch import Tensor, nn

from dualtta.state import digest


class Weights:
    """Named parameters of a model, their source values, and a master of each that optimisers move.

    The master is the parameter itself, or a float32 copy where the parameter's precision is lower or its memory layout is not
    dense; `copy_to_model` then brings the master's values into the model.
    """

    def __init__(self, model: nn.Module, names: set[str]) -> None:
        self.model = model
        self.params = {name: p for name, p in model.named_parameters() if name in names}
        self.masters: dict[str, Tensor] = {
            name: p
            if p.dtype == master_dtype(p) and is_dense(p)
            else torch.empty_like(p, dtype=master_dtype(p)).copy_(p.detach()).requires_grad_()
            for name, p in self.params.items()
        }
        self.separate = [name for name, p in self.params.items() if p is not self.masters[name]]
        self.source = self.values()
        self.buffers = Buffers(model)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all source parameters and buffers and of the names that adapt: a state of another model is refused."""
        source = {**dict(self.model.named_parameters()), **self.buffers.source, **self.source}
        return digest(" ".join(sorted(self.params)), source)

    def values(self) -> dict[str, Tensor]:
        """Copies of the masters."""
        return {name: master.detach().clone() for name, master in self.masters.items()}

    def assign(self, values: Mapping[str, Tensor]) -> None:
        """Set the masters and the model's parameters to these values."""
        with torch.no_grad():
            if self.masters:
                torch._foreach_copy_(list(self.masters.values()), [values[name] for name in self.masters])
            self.copy_to_model()

    @contextmanager
    def at_source(self) -> Iterator[None]:
        """The model at its source parameters while this lasts."""
        now = self.values()
        try:
            self.assign(self.source)
            yield
        finally:
            self.assign(now)

    def copy_to_model(self) -> None:
        """Copy the masters into those parameters that are not masters themselves."""
        if self.separate:
            torch._foreach_copy_([self.params[n] for n in self.separate], [self.masters[n] for n in self.separate])
        torch.clear_autocast_cache()  # a surrounding autocast would keep using its copies of the old values

    def drift(self, importance: Mapping[str, Tensor]) -> Tensor:
        """Sum of importance * (value - source value)^2, differentiable."""
        terms = [(importance[n] * (p - self.source[n]).square()).sum() for n, p in self.params.items()]
        return torch.stack(terms).sum()


class Buffers:
    """The buffers of a model and their source values. A forward may change a buffer's value or replace its tensor."""

    def __init__(self, model: nn.Module) -> None:
        self._own = dict(model.named_buffers())
        self.source = {name: buffer.detach().clone() for name, buffer in self._own.items()}
        parts = {name: name.rpartition(".") for name in self._own}
        self._owners = {name: (model.get_submodule(path), last) for name, (path, _, last) in parts.items()}

    def changed(self) -> dict[str, Tensor]:
        """The buffers that differ from their source values; most models have none."""
        now = {name: module._buffers[last] for name, (module, last) in self._owners.items()}
        return {n: b.detach().clone() for n, b in now.items() if b is not None and not same(b, self.source[n])}

    def assign(self, changed: Mapping[str, Tensor]) -> None:
        """Set these buffers to the given values, and all others to their source values."""
        with torch.no_grad():
            for name, (module, last) in self._owners.items():
                own, value = self._own[name], changed.get(name, self.source[name])
                fits = own.shape == value.shape and own.dtype == value.dtype
                module._buffers[last] = own.copy_(value) if fits else value.to(own.device, copy=True)


def same(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a, b)


def master_dtype(p: Tensor) -> torch.dtype:
    """The precision that a parameter is stepped in: a step of 1e-5 on a bfloat16 weight of 1 would be rounded away."""
    return torch.promote_types(p.dtype, torch.float32)


def is_dense(p: Tensor) -> bool:
    """Whether the values are contiguous in memory up to a permutation of the axes, as the fused kernel needs them."""
    return torch.empty_like(p).stride() == p.stride()


def laid_out_like(master: Tensor, value: Tensor) -> Tensor:
    """The value in the dtype and memory layout of the master."""
    if value.dtype == master.dtype and value.stride() == master.stride():
        return value
    return torch.empty_like(master).copy_(value)
