"""The evaluation loop: what it writes down of a stream."""

import math

import pytest
import torch
from torch import Tensor, nn

import dualtta
from dualtta.bench.evaluate import evaluate
from dualtta.data.loading import Batch
from dualtta.testing import small_net, small_stream


class Masked(nn.Module):
    """Logits of which some classes are ruled out."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = small_net()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).index_fill(1, torch.tensor([3, 4]), -torch.inf)


def batch(x: Tensor) -> Batch:
    none = torch.zeros(len(x), dtype=torch.int64)
    return Batch(x=x, label=none, domain=none, group=none - 1, index=torch.arange(len(x)), segment=0, reset=False)


@pytest.mark.parametrize("method", ["source", "tent", "dualtta"])
def test_entropies_over_classes_that_are_ruled_out_are_those_over_the_others(method):
    adapter, x = dualtta.adapt(Masked(), method), small_stream()[0]
    left = adapter.predict(x)[:, [0, 1, 2, 5, 6, 7, 8, 9]].softmax(1)
    entropy = evaluate(adapter, [batch(x)]).rows["entropy"]
    assert torch.from_numpy(entropy) == pytest.approx(-(left * left.log()).sum(1), rel=1e-4)
    assert entropy.max() <= math.log(8) + 1e-6


def test_a_stream_without_a_batch_is_an_error():
    with pytest.raises(ValueError, match="no batch"):
        evaluate(dualtta.adapt(small_net(), "source"), [])
