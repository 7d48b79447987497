"""The supplement's symbols, as pure functions of one batch of independent samples.

    h_s = (U, S)                 a sample's style: channel means and deviations at layer i, each (B, C)
    m(x) = s_y - max_k s_k       its margin, y the predicted class
    K(x) = max(|grad_U (s_y - s_k)|, |grad_S (s_y - s_k)|)
    J_s = dp / dh_s              its style-Jacobian
    g_s = J_{h_s,theta}^T grad_{h_s} L      the style part of the gradient

Samples do not influence each other, so one backward pass from a sum over the batch gives every sample's own gradient.
"""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

Pair = tuple[Tensor, Tensor]  # of U and of S, each (B, C)
EXACT = 64  # the largest number of classes for which the Jacobian's norm is computed row by row; beyond, it is estimated
PROBES = 32  # random projections of that estimate


def style(z: Tensor) -> Pair:
    """U and S of a map (B, C, P); in a constant channel S is 0 with gradient 0, where that of the root is infinite.

    >>> [value.tolist() for value in style(torch.tensor([[[1.0, 3.0], [5.0, 5.0]]]))]
    [[[2.0, 5.0]], [[1.0, 0.0]]]
    """
    u = z.mean(2)
    variance = (z - u[:, :, None]).square().mean(2)
    varies = variance.detach().sqrt() > 8 * torch.finfo(z.dtype).eps * u.detach().abs()  # as in `views.default.restyle`
    return u, torch.where(varies, torch.where(varies, variance, 1.0).sqrt(), 0.0)


def margin(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """m(x), the predicted class y and the runner-up k, each (B,).

    >>> [value.tolist() for value in margin(torch.tensor([[1.0, 4.0, 2.0]]))]
    [[2.0], [1], [2]]
    """
    best, classes = logits.topk(2, 1)
    return best[:, 0] - best[:, 1], classes[:, 0], classes[:, 1]


def gap(logits: Tensor, y: Tensor, k: Tensor) -> Tensor:
    """s_y - s_k of each sample's own classes: (B, C) -> (B,)."""
    return (logits.gather(1, y[:, None]) - logits.gather(1, k[:, None])).squeeze(1)


def probability(logits: Tensor, y: Tensor) -> Tensor:
    """p_y of each sample's own class: (B, C) -> (B,)."""
    return logits.softmax(1).gather(1, y[:, None]).squeeze(1)


def entropy(logits: Tensor) -> Tensor:
    """The loss L(x) of each sample, (B,). Its weight and sign (plus on D+, minus on D-) cancel in every ratio of gradients."""
    log_p = logits.log_softmax(1)
    return -(log_p.exp() * log_p.clamp_min(torch.finfo(log_p.dtype).min)).sum(1)


def style_gradient(values: Tensor, h: Pair) -> Pair:
    """The gradient of each sample's value (B,) with respect to its own style."""
    u, s = torch.autograd.grad(values.sum(), h, retain_graph=True)
    return u, s


def lipschitz(gradient: Pair) -> Tensor:
    """K(x) from the gradient of s_y - s_k: the larger of its two norms."""
    by_u, by_s = norms(gradient)
    return torch.maximum(by_u, by_s)


def size(delta: Pair) -> Tensor:
    """|dU| + |dS|, the factor of K in Theorem 1."""
    by_u, by_s = norms(delta)
    return by_u + by_s


def norms(pair: Pair) -> Pair:
    """The norm of each sample's U and S, (B,) each."""
    return torch.linalg.vector_norm(pair[0], dim=1), torch.linalg.vector_norm(pair[1], dim=1)


def first_order(gradient: Pair, delta: Pair) -> Tensor:
    """The first-order change under a perturbation of the style, (B,).

    >>> one = torch.ones(1, 2)
    >>> first_order((one, 2 * one), (one, one)).tolist()
    [6.0]
    """
    return (gradient[0] * delta[0]).sum(1) + (gradient[1] * delta[1]).sum(1)


def jacobian_norm(logits: Tensor, h: Pair, generator: Generator) -> Tensor:
    """|J_s(x)|, the Frobenius norm of dp/dh_s: (B,).

    Row by row for up to EXACT classes; else from random signs v, as the mean of |J_s^T v|^2 is the squared norm.
    """
    probs = logits.softmax(1)
    count = probs.shape[1]
    if count <= EXACT:
        directions, weight = torch.eye(count, dtype=probs.dtype), 1.0
    else:
        signs = torch.randint(0, 2, (PROBES, count), generator=generator)
        directions, weight = (2 * signs - 1).to(probs.dtype), 1 / PROBES
    squares = torch.zeros_like(probs[:, 0])
    for direction in directions.to(probs.device):
        u, s = style_gradient((probs * direction).sum(1), h)
        squares += weight * (u.square().sum(1) + s.square().sum(1))
    return squares.sqrt()


def style_component(h: Pair, by_style: Pair, parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """g_s = J_{h_s,theta}^T grad_{h_s} L for one sample; None for parameters that its style `h` does not depend on."""
    along = (h[0] * by_style[0].detach()).sum() + (h[1] * by_style[1].detach()).sum()
    if not along.requires_grad:
        return [None] * len(parameters)
    return list(torch.autograd.grad(along, list(parameters), retain_graph=True, allow_unused=True))


def total_norm(gradients: Sequence[Tensor]) -> float:
    """The norm of several tensors together.

    >>> total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
    5.0
    """
    return float(torch.stack([gradient.norm() for gradient in gradients]).norm()) if gradients else float("nan")
