"""The public checks catch what they are for: for each, a method or model that fails it."""

import random
from dataclasses import dataclass, field

import pytest
import torch

import dualtta
from dualtta.method import Method, Selection, entropy_objective
from dualtta.testing import (
    check_holds_no_state,
    check_leaves_no_hook,
    check_leaves_random_state_alone,
    check_method,
    check_reset_is_exact,
    check_selects_soundly,
    check_works_without_grad,
    small_net,
    small_stream,
)


@dataclass(frozen=True, kw_only=True)
class Everybody(Method):
    def select(self, probe, memory):
        return Selection.of(torch.ones_like(probe.prediction, dtype=torch.bool), torch.ones_like(probe.entropy))


class Stateful(Everybody):
    def select(self, probe, memory):
        object.__setattr__(self, "calls", 1)
        return super().select(probe, memory)


class Gambling(Everybody):
    def select(self, probe, memory):
        torch.rand(1)
        random.random()
        return super().select(probe, memory)


class Forgetful(Everybody):
    """Remembers outside of its memory, so that reset cannot reach it."""

    seen: list = []  # noqa: RUF012

    def objective(self, probe, selection, memory):
        self.seen.append(1)
        return entropy_objective(probe, selection) * len(self.seen)


class Overlapping(Everybody):
    def select(self, probe, memory):
        everybody = torch.ones_like(probe.prediction, dtype=torch.bool)
        return Selection(everybody, everybody, torch.ones_like(probe.entropy))


class Weightless(Everybody):
    def select(self, probe, memory):
        return Selection.of(torch.ones_like(probe.prediction, dtype=torch.bool), torch.zeros_like(probe.entropy))


class Hooked(Everybody):
    def select(self, probe, memory):
        probe._net.model.register_forward_hook(lambda *args: None)
        return super().select(probe, memory)


class GradDependent(Everybody):
    def select(self, probe, memory):
        weight = torch.full_like(probe.entropy, 1.0 if probe._x.is_inference() else 2.0)
        return Selection.of(torch.ones_like(probe.prediction, dtype=torch.bool), weight)


@pytest.mark.parametrize(
    ("check", "method", "says"),
    [
        (check_holds_no_state, Stateful(), "memory is passed in and out"),
        (check_leaves_random_state_alone, Gambling(), "global generator is left alone"),
        (check_reset_is_exact, Forgetful(), "after reset"),
        (check_selects_soundly, Overlapping(), "disjoint"),
        (check_selects_soundly, Weightless(), "is positive"),
        (check_leaves_no_hook, Hooked(), "no hook"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Method) else "",
)
def test_each_check_fails_where_it_should(check, method, says):
    check(Everybody(), small_net(), small_stream())
    with pytest.raises(AssertionError, match=says):
        check(method, small_net(), small_stream())


def test_inference_tensors_never_reach_a_method():
    check_works_without_grad(GradDependent(), small_net(), small_stream())


def test_check_method_takes_names_classes_and_own_models():
    check_method("tent", small_net(), small_stream(2))
    check_method(Everybody)
    with pytest.raises(ValueError, match="no method"):
        check_method("tentt")


def test_small_nets_are_repeatable_and_leave_the_generator_alone():
    state = torch.get_rng_state()
    a, b = small_net(seed=3), small_net(seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Remembering(Everybody):
    """A plug-in method with memory of its own passes everything."""

    pace: float = field(default=0.5)

    def remember(self, probe, selection, memory):
        mean = probe.entropy.mean()
        return {**memory, "mean": self.pace * memory.get("mean", mean) + (1 - self.pace) * mean}


def test_a_method_with_memory_of_its_own_passes():
    check_method(Remembering())
    adapter = dualtta.adapt(small_net(), Remembering())
    adapter(small_stream()[0])
    assert "mean" in adapter.memory
