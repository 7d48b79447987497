"""SAR's recovery: its threshold is a share of ln C, and what earlier versions stored in nats is not taken for one."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import dualtta
from dualtta import state
from dualtta.conformance.methods import method_of
from dualtta.methods import change_words, changed_defaults, make_method
from dualtta.testing import run, same, small_net, small_stream


@pytest.mark.parametrize(("classes", "nats"), [(1000, 0.2), (2, 0.2 / math.log(1000) * math.log(2))])
def test_the_recovery_threshold_of_sar_is_that_of_its_paper_on_1000_classes_and_its_share_on_others(classes, nats):
    probe = SimpleNamespace(max_entropy=math.log(classes))
    selection = SimpleNamespace(empty=lambda: False, plus=torch.tensor([True]), sizes=(1, 0))
    for factor, reset in ((0.999, True), (1.001, False)):
        probe.entropy = torch.tensor([factor * nats], dtype=torch.float64)
        assert make_method("sar").should_reset(make_method("sar").remember(probe, selection, {})) is reset


def test_sar_on_two_confident_classes_keeps_what_it_learned():
    """Average entropies below 0.2 nats are usual on two classes: the published threshold resets after every step."""

    def recoveries(**settings):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
        net(small_stream()[0])
        net[-1].weight.data *= 15  # confident
        adapter = dualtta.adapt(net, "sar", lr=1e-5, **settings)
        steps = [adapter.step(x) for x in small_stream()]
        assert all(step.updated for step in steps)
        return adapter.recoveries

    assert recoveries(recovery_share=0.2 / math.log(2)) == len(small_stream())
    assert recoveries() == 0


def test_the_former_threshold_of_sar_is_refused_by_its_name():
    with pytest.raises(ValueError, match="sar has no setting 'recovery'; did you mean 'recovery_share'"):
        make_method("sar", recovery=0.2)


@pytest.mark.parametrize("nats", [0.2, 0.2 / math.log(1000)])
def test_a_state_with_the_threshold_in_nats_is_refused_by_one_line(nats, tmp_path):
    adapter = dualtta.adapt(small_net(), "sar")
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    tensors, about = state.read(tmp_path / "state", "dualtta-adapter")
    del about["made"]["recovery_share"]
    about["made"]["recovery"] = nats
    state.write(tmp_path / "state", "dualtta-adapter", tensors, {"made": about["made"], "counts": about["counts"]})
    loaded = dualtta.adapt(small_net(), "sar")
    with pytest.raises(
        ValueError, match=r"saved with recovery=0\.\d+, a setting that sar no longer has: adapt from the source"
    ):
        loaded.load(tmp_path / "state")
    assert same(loaded.weights.values(), loaded.weights.source)


def test_recorded_thresholds_in_nats_are_compared_as_shares():
    def changed(classes, **chosen):
        about = {"cell": {"method": {"name": "sar", **chosen}}, "classes": ["c"] * classes}
        return changed_defaults({**about, "method": {"name": "sar", "recovery": 0.2, **chosen}})

    assert changed(1000) == {}
    assert change_words(changed(2)) == "recovery_share 0.288539, now 0.028953"
    assert changed(2, recovery=0.1) == {}  # it was chosen


def test_golden_vectors_give_the_threshold_in_nats():
    arrays = {"logits": torch.zeros(1, 2, 10).numpy()}
    assert method_of({"method": "sar", "recovery": 0.2}, arrays).recovery_share == pytest.approx(0.2 / math.log(10))
    assert method_of({"method": "sar"}, arrays) == make_method("sar")
