"""Steps keep to the bound on what they change, whatever the learning rate."""

import pytest
import torch

import dualtta
from dualtta.testing import small_net, small_stream
from dualtta.trust_region import FULL, TrustRegion, divergence


def log_probs(adapter, x):
    return adapter.predict(x).log_softmax(1)


@pytest.mark.parametrize("lr", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("method", ["tent", "sar"])
def test_no_step_changes_the_predictions_of_its_batch_by_more_than_the_bound(method, norm, lr):
    settings = {"sar": {"ent0": 1.0, "recovery_share": 0.0}}.get(method, {})
    adapter = dualtta.adapt(small_net(norm), method, lr=lr, statistics="source", **settings)
    adapter._updater.region = TrustRegion(0.01)
    moved = 0
    for x in small_stream(6, size=16):
        before = log_probs(adapter, x)
        step = adapter.step(x)
        change = divergence(before, log_probs(adapter, x)).mean()
        assert change <= 0.01 * len(x) / FULL * 1.01
        moved += step.updated
    assert moved


def test_a_step_within_the_bound_is_not_changed():
    one, other = (dualtta.adapt(small_net(), "tent", lr=1e-5) for _ in range(2))
    other._updater.region = TrustRegion(1e9)
    for x in small_stream():
        one.step(x)
        other.step(x)
    assert all(torch.allclose(p, other.weights.values()[name], rtol=0, atol=1e-9) for name, p in one.weights.values().items())


def test_the_search_begins_at_the_scale_of_the_last_step():
    adapter = dualtta.adapt(small_net(), "tent", lr=10.0)
    region = adapter._updater.region = TrustRegion(0.01)
    first, *rest = small_stream(8)
    adapter.step(first)
    scale = region.scale
    assert scale < 0.1
    tries = []
    for x in rest:
        adapter.step(x)
        tries.append(region.tries)
    assert min(tries) == 1
