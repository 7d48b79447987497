"""A view shows the batch under a transform: of the input, or of a feature map inside the model.

The transform is a pure function of its random draws. Every draw has the batch as its leading axis, so that a batch that is
permuted together with its draws gives permuted views, and recorded draws can be replayed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

Draws = tuple[Tensor, ...]


class View(ABC):
    """Subclasses are frozen dataclasses; their fields are their settings."""

    name: ClassVar[str]

    @abstractmethod
    def draw(self, x: Tensor, generator: Generator) -> Draws:
        """The random numbers for a batch of inputs, each of shape (B, ...), on the generator's device."""


class InputView(View):
    """A transform of the input (B, C, H, W)."""

    @abstractmethod
    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        """The transformed batch; `x` itself stays as it is."""


class FeatureView(View):
    """A transform of the feature map at a layer of the model."""

    layer: str | None  # the module whose output is transformed; None: chosen by depth

    @abstractmethod
    def transform(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The transformed map, and what is to be remembered of this batch.

        `channel` is the axis of the channels; the first `prefix` tokens of a token map are not patches.
        """

    def transform_some(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor], rows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The same for these rows alone, out of the whole batch. A view that can spare itself the others overrides this."""
        changed, observed = self.transform(z, draws, channel, prefix, memory)
        return changed[rows], observed


def uniform(generator: Generator, *shape: int) -> Tensor:
    """Draws in float64, so that a run in float32 and one in float64 see the same."""
    return torch.rand(*shape, generator=generator, dtype=torch.float64, device=generator.device)


def normal(generator: Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device=generator.device)


def images_only(view: View, x: Tensor) -> None:
    if x.ndim != 4:
        raise ValueError(
            f"the view {view.name!r} needs images (B, C, H, W), not a batch of shape {tuple(x.shape)}: take another view, or a "
            "method without views, such as tent"
        )


def check_share(view: View, setting: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"the view {view.name!r}: {setting} must be a share from 0 to 1, not {value!r}")
