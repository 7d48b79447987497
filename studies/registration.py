"""The studies' method and experiments in the registries that plug-ins use."""

from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from inspect import signature
from types import MappingProxyType
from typing import Any

from dualtta.bench.experiments import EXPERIMENTS
from dualtta.methods import METHODS
from studies import ablations, candidates, step_size
from studies.dual_variant import DualVariant

STUDIES: dict[str, Callable[..., Any]] = {
    "gap": ablations.gap,
    "study-settings": ablations.study_settings,
    "study-minus": ablations.study_minus,
    "study-collapse": ablations.study_collapse,
    "study-statistics": step_size.study_statistics,
    "study-steps": step_size.study_steps,
    "study-drift": step_size.study_drift,
    "study-decay": step_size.study_decay,
    "study-variants": candidates.study_variants,
    "candidates": candidates.candidates,
    "held-out": candidates.held_out,
}


def register(experiment: str = "", candidate: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Register all; `experiment` with the settings of a candidate, which it must take."""
    METHODS[DualVariant.name] = DualVariant
    EXPERIMENTS.update(STUDIES)
    if candidate:
        plan = STUDIES.get(experiment)
        if plan is None or "candidate" not in signature(plan).parameters:
            some = ", ".join(name for name, one in STUDIES.items() if "candidate" in signature(one).parameters)
            raise ValueError(f"{experiment} takes no --candidate; these do: {some}")
        EXPERIMENTS[experiment] = update_wrapper(partial(plan, candidate=dict(candidate)), plan)
