"""All tables of a report, from what was gathered: the paper's layouts first, then everything else."""

from dualtta.paper.claims import claims_table
from dualtta.report import ablations, layouts
from dualtta.report.benches import SHIFTS, Placed, place
from dualtta.report.cost import cost
from dualtta.report.gather import Collected
from dualtta.report.generic import by_place, other_settings
from dualtta.report.labels import label
from dualtta.report.table import Table
from dualtta.report.use import efficiency, quadrants


def build_tables(collected: Collected) -> list[Table]:
    """Every record is in at least one of them."""
    placed = place(collected)
    uncovered = [one for one in placed if not covered(one)]
    inside = {id(one.setting) for one in placed}
    outside = [setting for setting in collected.settings if id(setting) not in inside]
    tables = [
        *layouts.benchmarks(placed),
        *layouts.domain_pairs(placed),
        *layouts.imagenet_c(placed),
        *layouts.wild(placed),
        *ablations.filters(placed),
        *ablations.incorrect(placed),
        *efficiency(placed),
        *ablations.sensitivity(placed),
        *other_settings(placed, uncovered),
        *by_place(outside),
        *quadrants(placed, outside),
        *claims_table(placed),
        *cost(collected),
    ]
    assert len({table.name for table in tables}) == len(tables), "a table's name is the name of its files"
    return tables


def covered(one: Placed) -> bool:
    """Whether a layout of the paper shows this setting's accuracy."""
    if one.kind == "":
        return True
    if one.setting.method != "dualtta" or one.bench not in SHIFTS or one.label != label(one.setting):
        return False
    if ablations.without_d_minus(one):
        return one.bench != "waterbirds"
    return one.label in ablations.FILTER_LABELS or bool(ablations.threshold_grid([one]))
