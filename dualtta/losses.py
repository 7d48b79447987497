"""Entropies of predictions, and their gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LEAST = -1e4  # of a log-probability in an entropy: exp is zero there, and a weighted gradient stays finite


def entropy(log_p: Tensor, p: Tensor | None = None) -> Tensor:
    """Ent of log-probabilities (B, C); a class of probability zero, masked out by a logit of -inf, adds nothing.

    >>> entropy(torch.tensor([[0.5, 0.5, 0.0]]).log()).exp()
    tensor([2.])
    """
    p = log_p.exp() if p is None else p
    return -(p * log_p.clamp_min(LEAST)).sum(1)


class WeightedEntropy(torch.autograd.Function):
    """Sum of coefficient * Ent over those who take part, of logits of which all else is known already.

    Its gradient by dEnt / dlog p = -p (log p + 1) is to the bit what autograd finds, in half of the operators: on a small net
    those take longer than the model's own.
    """

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, log_p: Tensor, p: Tensor, ent: Tensor, coefficients: Tensor, taking: Tensor
    ) -> Tensor:
        ctx.save_for_backward(log_p, p, coefficients, taking)
        return (coefficients * torch.where(taking, ent, 0.0)).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        log_p, p, coefficients, taking = ctx.saved_tensors
        g = -torch.where(taking, grads[0] * coefficients, 0.0)[:, None]
        by_log_p = (g * log_p.clamp_min(LEAST) * p + g * p).to(log_p.dtype)  # a method's weights may be wider
        return torch._log_softmax_backward_data(by_log_p, log_p, 1, log_p.dtype), None, None, None, None, None


def widen(logits: Tensor) -> Tensor:
    """Half-precision logits as float32; float32 and float64 as they are."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
