"""Each public check fails on a method that violates it, and passes on the others."""

import random
from dataclasses import dataclass, field

import pytest
import torch

import dualtta
from dualtta.method import Appearance, Method, Selection, entropy_objective
from dualtta.testing import (
    check_holds_no_state,
    check_leaves_no_hook,
    check_leaves_random_state_alone,
    check_metadata,
    check_method,
    check_reset_is_exact,
    check_selection_is_valid,
    check_works_without_grad,
    small_net,
    small_stream,
)


@dataclass(frozen=True, kw_only=True)
class SelectsAll(Method):
    def select(self, probe, memory):
        return Selection.of(torch.ones_like(probe.prediction, dtype=torch.bool), torch.ones_like(probe.entropy))


class Stateful(SelectsAll):
    def select(self, probe, memory):
        object.__setattr__(self, "calls", 1)
        return super().select(probe, memory)


class DrawsGlobally(SelectsAll):
    def select(self, probe, memory):
        torch.rand(1)
        random.random()
        return super().select(probe, memory)


class ForgetsToReset(SelectsAll):
    """Keeps state outside of the memory, which reset does not restore."""

    seen: list = []  # noqa: RUF012

    def objective(self, probe, selection, memory):
        self.seen.append(1)
        return entropy_objective(probe, selection) * len(self.seen)


class Overlapping(SelectsAll):
    def select(self, probe, memory):
        everything = torch.ones_like(probe.prediction, dtype=torch.bool)
        return Selection(everything, everything, torch.ones_like(probe.entropy))


class Weightless(SelectsAll):
    def select(self, probe, memory):
        return Selection.of(torch.ones_like(probe.prediction, dtype=torch.bool), torch.zeros_like(probe.entropy))


class Hooked(SelectsAll):
    def select(self, probe, memory):
        probe._net.model.register_forward_hook(lambda *args: None)
        return super().select(probe, memory)


class GradDependent(SelectsAll):
    def select(self, probe, memory):
        weight = torch.full_like(probe.entropy, 1.0 if probe._x.is_inference() else 2.0)
        return Selection.of(torch.ones_like(probe.prediction, dtype=torch.bool), weight)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("name", "my method", "`name` is an identifier"),
        ("title", "My\nmethod", "`title` is one line"),
        ("paper", None, "`paper` is one line"),
        ("published", "June 2026", "`published` is YYYY-MM or empty"),
        ("published", "2026-13", "`published` is YYYY-MM or empty"),
        ("appearance", "#0072b2", "an Appearance or None"),
        ("appearance", Appearance("blue", "o", "-"), "#rrggbb"),
        ("appearance", Appearance("#0072b2", "", "-"), "has a marker"),
        ("appearance", Appearance("#0072b2", "o", "dashed"), "the dash of"),
    ],
)
def test_metadata_that_tables_and_figures_cannot_show_is_rejected(key, value, says):
    with pytest.raises(AssertionError, match=says):
        check_metadata(type("Odd", (SelectsAll,), {key: value})(), small_net(), small_stream())


def test_the_metadata_of_every_registered_method_is_valid_and_complete():
    for name, kind in dualtta.METHODS.items():
        check_metadata(kind(), small_net(), [])
        if kind.__module__.startswith("dualtta.methods."):
            assert kind.name == name
            assert kind.title
            assert kind.appearance


@pytest.mark.parametrize(
    ("check", "method", "says"),
    [
        (check_holds_no_state, Stateful(), "its state is the memory"),
        (check_leaves_random_state_alone, DrawsGlobally(), "global generator is not used"),
        (check_reset_is_exact, ForgetsToReset(), "after reset"),
        (check_selection_is_valid, Overlapping(), "disjoint"),
        (check_selection_is_valid, Weightless(), "is positive"),
        (check_leaves_no_hook, Hooked(), "hooks are removed"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Method) else "",
)
def test_each_check_fails_where_it_should(check, method, says):
    check(SelectsAll(), small_net(), small_stream())
    with pytest.raises(AssertionError, match=says):
        check(method, small_net(), small_stream())


def test_inference_tensors_never_reach_a_method():
    check_works_without_grad(GradDependent(), small_net(), small_stream())


def test_check_method_takes_names_classes_and_own_models():
    check_method("tent", small_net(), small_stream(2))
    check_method(SelectsAll)
    with pytest.raises(ValueError, match="no method"):
        check_method("tentt")


def test_small_nets_are_repeatable_and_leave_the_generator_alone():
    state = torch.get_rng_state()
    a, b = small_net(seed=3), small_net(seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@dataclass(frozen=True, kw_only=True)
class Remembering(SelectsAll):
    """A method with memory of its own, as a plug-in would define it."""

    pace: float = field(default=0.5)

    def remember(self, probe, selection, memory):
        mean = probe.entropy.mean()
        return {**memory, "mean": self.pace * memory.get("mean", mean) + (1 - self.pace) * mean}


def test_a_method_with_memory_of_its_own_passes():
    check_method(Remembering())
    adapter = dualtta.adapt(small_net(), Remembering())
    adapter(small_stream()[0])
    assert "mean" in adapter.memory
