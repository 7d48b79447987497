"""`dualtta list`: everything that has a name."""

import json as jsonlib
from typing import Any


def list_(json: bool = False) -> int:
    """Show all that has a name: methods with their settings, views, datasets, models, scenarios and experiments.

    Args:
        json: Print JSON instead of tables.
    """
    from dualtta.bench.experiments import EXPERIMENTS
    from dualtta.cli.parser import first_line
    from dualtta.data.registry import DATASETS
    from dualtta.data.registry import settings as choices
    from dualtta.methods import METHODS, settings
    from dualtta.printing import table
    from dualtta.streams.scenarios import SCENARIOS
    from dualtta.views import VIEWS
    from dualtta.zoo.registry import MODELS

    methods = {name: {**settings(kind()), "statistics": kind.statistics} for name, kind in METHODS.items()}
    views = {name: first_line(kind) for name, kind in VIEWS.items()}
    datasets = {name: first_line(kind) for name, kind in DATASETS.items()}
    models = {name: spec.summary for name, spec in MODELS.items()}
    scenarios = {name: what for name, (what, _) in SCENARIOS.items()}
    experiments = {name: first_line(plan) for name, plan in EXPERIMENTS.items()}
    if json:
        named = {"views": views, "datasets": datasets, "models": models, "scenarios": scenarios, "experiments": experiments}
        print(jsonlib.dumps({"methods": methods, **named}, indent=2))
        return 0
    fields = {name: ", ".join(f"{k}={_short(v)}" for k, v in values.items()) for name, values in methods.items()}
    table(["method", "what it does", "settings"], [[name, first_line(METHODS[name]), fields[name]] for name in METHODS])
    table(["view", "what it does"], [*map(list, views.items())])
    table(["dataset", "what it is", "settings"], [[name, what, ", ".join(choices(name))] for name, what in datasets.items()])
    table(["model", "what it is"], [*map(list, models.items()), ["timm:NAME", "any model of timm"]])
    table(["scenario", "what is met (join several with +)"], [*map(list, scenarios.items())])
    table(["experiment", "what it repeats"], [*map(list, experiments.items())])
    return 0


def _short(value: Any) -> str:
    return str(value["view"]) if isinstance(value, dict) else str(value)
