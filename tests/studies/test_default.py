"""`dualtta_safe` is the variant of the studies at the settings of the candidate, to the bit."""

import pytest
import torch

import dualtta
from dualtta.methods.dualtta_safe import DualTTASafe
from dualtta.testing import same, same_step, small_net, small_stream
from studies.dual_variant import DualVariant
from studies.setups import CANDIDATE

LOOSE = {"tau_sa": 0.05, "tau_sp": 0.1, "crowd": 2.5, "steady": 0.5}  # small nets of random weights then select samples


class Candidate(DualVariant):
    """The variant with the default's class settings: given as `statistics=`, a blend also applies to single samples."""

    statistics = CANDIDATE["statistics"]
    rates = DualTTASafe.rates


SETTINGS = {key: value for key, value in CANDIDATE.items() if key != "statistics"}
pytestmark = pytest.mark.filterwarnings("ignore::dualtta.CollapseWarning")


@pytest.mark.parametrize("speed", ["naive", "safe"])
@pytest.mark.parametrize("size", [1, 16, 64])
@pytest.mark.parametrize("norm", ["batch", "group", "layer"])
@pytest.mark.parametrize("settings", [{}, LOOSE, {**LOOSE, "crowd": None}, {**LOOSE, "steady": None}], ids=str)
@pytest.mark.slow
def test_the_default_is_the_candidate_to_the_bit(settings, norm, size, speed):
    xs = [x[torch.arange(size) % len(x)] for x in small_stream(8)]
    safe = dualtta.adapt(small_net(norm), "dualtta_safe", speed=speed, guard=False, **settings)
    variant = dualtta.adapt(small_net(norm), Candidate, speed=speed, **{**SETTINGS, **settings})
    assert all(same_step(safe.step(x), variant.step(x)) for x in xs)
    assert same(safe.weights.values(), variant.weights.values())
    assert safe.memory.keys() == variant.memory.keys()
    assert all(torch.equal(value, variant.memory[name]) for name, value in safe.memory.items())


@pytest.mark.parametrize(
    ("norm", "step"),
    [
        ("batch", {"reduction": "sum", "cautious": 1.0, "anchor": 0.03, "statistics": 0.3}),
        ("group", {"reduction": "mean"}),
        ("layer", {"reduction": "mean"}),
    ],
)
def test_its_steps_are_a_scaled_sum_with_decay_on_batchnorm_and_a_mean_elsewhere(norm, step):
    free = {"crowd": 100.0, "steady": 10.0, "tau_sa": -1.0, "tau_sp": 1.0, "lr": 1e-3}
    safe = dualtta.adapt(small_net(norm), guard=False, **free)
    variant = dualtta.adapt(small_net(norm), DualVariant, **free, **step)
    for x in small_stream():
        a, b = safe.step(x), variant.step(x)
        assert a.updated
        assert torch.equal(a.plus, b.plus)
        assert torch.equal(a.loss, b.loss)
    assert same(safe.weights.values(), variant.weights.values())
