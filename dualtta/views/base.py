"""A view transforms a batch before it is forwarded again: its input, or a feature map inside the model.

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
        """The random numbers for a batch of inputs, each of shape (B, ...) and float64, on the generator's device.

        In float64 a run in float32 and one in float64 use the same numbers.
        """


class InputView(View):
    """A transform of the input (B, C, H, W)."""

    @abstractmethod
    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        """The transformed batch; `x` is not changed."""


class FeatureView(View):
    """A transform of the feature map at a layer of the model."""

    layer: str | None  # the module whose output is transformed; None: chosen by depth

    @abstractmethod
    def transform(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The transformed map, and what the memory holds after this batch.

        `channel` is the axis of the channels; the first `prefix` tokens of a token map are not patches.
        """

    def transform_some(
        self, z: Tensor, draws: Draws, channel: int, prefix: int, memory: Mapping[str, Tensor], rows: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """`transform` for these rows of the batch alone. Override it where the other rows need not be transformed."""
        changed, observed = self.transform(z, draws, channel, prefix, memory)
        return changed[rows], observed


def uniform(generator: Generator, *shape: int) -> Tensor:
    """Uniform draws from [0, 1), in float64."""
    return torch.rand(*shape, generator=generator, dtype=torch.float64, device=generator.device)


def check_images(view: View, x: Tensor) -> None:
    if x.ndim != 4:
        raise not_images(view, x)


def not_images(view: View, x: Tensor) -> ValueError:
    return ValueError(
        f"the view {view.name!r} needs images (B, C, H, W), not a batch of shape {tuple(x.shape)}: take another view, or a "
        "method without views, such as tent"
    )


def check_share(view: View, setting: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise ValueError(f"the view {view.name!r}: {setting} must be a share from 0 to 1, not {value!r}")
