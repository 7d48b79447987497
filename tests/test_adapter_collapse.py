"""The collapse alarm: raised where predictions collapse, silent elsewhere."""

import warnings

import pytest
import torch

import dualtta
from dualtta.adapter import count_classes
from dualtta.testing import run, small_net, small_stream


def test_collapse_is_seen_and_said_once():
    adapter = dualtta.adapt(small_net(), "tent", lr=1.0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        steps = run(adapter, small_stream(40))
    predicted = steps[-1].logits.argmax(1)
    assert len(predicted.unique()) == 1  # it did collapse
    assert steps[-1].collapsing
    assert not any(step.collapsing for step in steps[:2])
    assert [type(w.message) for w in said] == [dualtta.CollapseWarning]
    assert "adapter.reset()" in str(said[0].message)
    adapter.reset()
    assert not adapter.step(small_stream()[0]).collapsing


@pytest.mark.parametrize("method", dualtta.METHODS)
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_no_alarm_where_nothing_is_wrong(method, norm):
    adapter = dualtta.adapt(small_net(norm), method, lr=1e-4)
    assert not any(step.collapsing for step in run(adapter, small_stream(20)))


def test_a_stream_sorted_by_class_is_no_alarm():
    model, xs = small_net(), torch.cat(small_stream(60))
    order = dualtta.adapt(model, "source")(xs).argmax(1).argsort()
    adapter = dualtta.adapt(model, "tent", lr=1e-5)
    assert not any(step.collapsing for step in run(adapter, xs[order].split(16)))


@pytest.mark.parametrize("classes", [10, 100])
@pytest.mark.parametrize("size", [1, 16, 64])
def test_a_collapse_whose_entropy_rises_is_seen_too(size, classes):
    xs = torch.cat(small_stream(24 if size == 1 else 64))
    adapter = dualtta.adapt(small_net(classes=classes), "dualtta", lr=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dualtta.CollapseWarning)
        steps = run(adapter, xs.split(size))
    predicted = torch.cat([step.logits for step in steps])[-64:].argmax(1)
    assert len(predicted.unique()) <= 1 + classes // 10  # it did collapse
    assert steps[-1].collapsing


def test_a_batch_larger_than_the_window_replaces_the_past_and_no_more():
    memory = count_classes(
        count_classes({}, "watch", torch.zeros(300, dtype=torch.long), 3), "watch", torch.ones(300, dtype=torch.long), 3
    )
    torch.testing.assert_close(memory["watch.shares"], torch.tensor([0.0, 1.0, 0.0]))
    assert memory["watch.seen"] == 600
