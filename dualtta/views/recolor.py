"""Semantic-preserving views of the input: colour jitter, statistics of another image, amplitudes of another image.

They take inputs normalised by any mean and deviation: colours move relative to the image's own mean and deviation.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from dualtta.views.base import Draws, InputView, check_images, check_share, uniform
from dualtta.views.default import moments, restyle


def partners(keys: Tensor) -> Tensor:
    """Each sample's partner: the sample with the next larger key, and for the largest key the one with the smallest.

    >>> partners(torch.tensor([0.5, 0.1, 0.9])).tolist()
    [2, 0, 1]
    """
    order = keys.argsort()
    partner = torch.empty_like(order)
    partner[order] = order.roll(-1)
    return partner


def jitter(x: Tensor, amounts: Tensor) -> Tensor:
    """Brightness, contrast and saturation by amounts (B, 3).

    They shift by the image's deviation, scale about its mean, and move away from grey.
    """
    brightness, contrast, saturation = amounts.to(x).reshape(-1, 3, 1, 1, 1).unbind(1)
    mean, std = x.mean((1, 2, 3), keepdim=True), x.std((1, 2, 3), correction=0, keepdim=True)
    x = (x - mean) * (1 + contrast) + mean + brightness * std
    grey = x.mean(1, keepdim=True)
    return grey + (x - grey) * (1 + saturation)


def mix_amplitudes(x: Tensor, other: Tensor, share: float, mix: float) -> Tensor:
    """Mix `mix` of the other image's low-frequency amplitudes into x, keeping x's phases (FDA).

    Frequencies up to `share` of the shorter side, about the zero frequency, are mixed.
    """
    height, width = x.shape[2:]
    spectrum, target = (torch.fft.fft2(v if v.dtype == torch.float64 else v.float()) for v in (x, other))
    reach = int(share * min(height, width))
    low = torch.fft.fftfreq(height, 1 / height, device=x.device).abs()[:, None] <= reach
    low = low & (torch.fft.fftfreq(width, 1 / width, device=x.device).abs() <= reach)
    amplitude = torch.where(low, (1 - mix) * spectrum.abs() + mix * target.abs(), spectrum.abs())
    mixed: Tensor = torch.fft.ifft2(torch.polar(amplitude, spectrum.angle())).real
    return mixed.to(x.dtype)


@dataclass(frozen=True)
class ColorJitter(InputView):
    """Random brightness, contrast and saturation, drawn for each image."""

    name: ClassVar[str] = "color"
    strength: float = 0.4

    def __post_init__(self) -> None:
        check_share(self, "strength", self.strength)

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        check_images(self, x)
        return (2 * uniform(generator, len(x), 3) - 1,)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return jitter(x, self.strength * draws[0])


@dataclass(frozen=True)
class AdaIN(InputView):
    """Give each image a mixture of its own channel statistics and those of another image (https://arxiv.org/abs/1703.06868)."""

    name: ClassVar[str] = "adain"
    mix: float = 0.5

    def __post_init__(self) -> None:
        check_share(self, "mix", self.mix)

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        check_images(self, x)
        return (uniform(generator, len(x)),)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        (u, s), partner = moments(x), partners(draws[0])
        return restyle(x, (u, s), (torch.lerp(u, u[partner], self.mix), torch.lerp(s, s[partner], self.mix)))


@dataclass(frozen=True)
class FourierMix(InputView):
    """Mix in the low-frequency amplitudes of another image, phases kept (FDA, https://arxiv.org/abs/2004.05498)."""

    name: ClassVar[str] = "fourier"
    share: float = 0.05
    mix: float = 0.5

    def __post_init__(self) -> None:
        check_share(self, "share", self.share)
        check_share(self, "mix", self.mix)

    def draw(self, x: Tensor, generator: Generator) -> Draws:
        check_images(self, x)
        return (uniform(generator, len(x)),)

    def transform(self, x: Tensor, draws: Draws) -> Tensor:
        return mix_amplitudes(x, x[partners(draws[0])], self.share, self.mix)
