"""Adapt a classifier to shifted data without labels. Swap in your own model and stream: python examples/adapt_your_model.py"""

import torch
from torch import Tensor, nn

import dualtta


def shapes(seed: int, noise: float, contrast: float) -> tuple[Tensor, Tensor]:
    """Stand-in data: 64 coloured disks, squares, diamonds, pluses, rings and bars, with their labels."""
    g = torch.Generator().manual_seed(seed)
    label, r = torch.randint(6, (64,), generator=g), 6 + 4 * torch.rand(64, 1, 1, generator=g)
    u, v = ((torch.arange(32.0).view(s) - 12 - 8 * torch.rand(64, 1, 1, generator=g)).abs() for s in ((-1, 1), (1, -1)))
    kinds = [u**2 + v**2 < r**2, torch.maximum(u, v) < r, u + v < 1.3 * r, (torch.minimum(u, v) < r / 3) & (u + v < 1.5 * r)]
    kinds += [((u**2 + v**2).sqrt() - 0.8 * r).abs() < r / 4, (u < r / 3) & (v < 1.2 * r)]
    mask = torch.stack(kinds)[label, torch.arange(64)][:, None].float()
    front, back = 0.6 + 0.4 * torch.rand(64, 3, 1, 1, generator=g), 0.4 * torch.rand(64, 3, 1, 1, generator=g)
    x = back + mask * (front - back) * contrast
    return (x + noise * torch.randn(x.shape, generator=g) - 0.5) / 0.25, label


torch.manual_seed(0)
sizes = [(3, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
blocks = [nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU()) for i, o, s in sizes]
model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(100):  # a source model, trained on clean images
    x, y = shapes(step, noise=0.02, contrast=1.0)
    optimizer.zero_grad()
    torch.autograd.backward(nn.functional.cross_entropy(model(x), y))
    optimizer.step()

# From here on it is your trained model, and your stream of unlabelled batches.
stream = [shapes(1000 + i, noise=0.15, contrast=0.4) for i in range(30)]
for method in ("source", "norm", "tent", "deyo", "dualtta"):
    adapter = dualtta.adapt(model, method)
    right = sum((adapter(x).argmax(1) == y).sum().item() for x, y in stream)
    print(f"{method:8} {right / 64 / len(stream):6.1%} right on noisy, pale images")
