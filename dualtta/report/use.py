"""How samples are used: the paper's data efficiency, and what is right in each quadrant of the two drops."""

from collections.abc import Sequence

from dualtta.report.benches import IMAGENET_C, SHIFTS, Placed, locate, variants
from dualtta.report.context import remarks
from dualtta.report.gather import Collected, Setting
from dualtta.report.labels import changes, label, rank
from dualtta.report.layouts import AS_IT_IS, Column, method_table, numbered, titled
from dualtta.report.paper import BACKBONES, Reported, reported
from dualtta.report.places import place_name
from dualtta.report.table import Row, Table, Value
from dualtta.report.values import Notes, over_seeds, value

SHARES = {"adapt": "%adapt", "corr_adapt": "%corr-adapt", "low_entropy": "%low entropy"}
UNSAID = "the paper does not say with which backbone"


def efficiency(placed: Sequence[Placed]) -> list[Table]:
    """Shares of all samples: used, used rightly (D+ and correct, or D- and not), of low entropy."""
    wanted = [one for one in placed if one.kind in AS_IT_IS and (one.bench in SHIFTS or one.bench.startswith("mild/"))]
    wanted = [one for one in wanted if one.setting.method not in ("source", "norm")]
    tables = []
    for i, (variant, some) in enumerate(variants(wanted).items()):
        benches = [key for key in SHIFTS if key in ("colored_mnist", "office_home") or any(one.bench == key for one in some)]
        benches += [f"mild/{model}" for model in BACKBONES if any(one.bench == f"mild/{model}" for one in some)]
        benches += sorted({one.bench for one in some if one.bench.startswith("mild/")} - set(benches))
        columns = [_share(bench, share) for bench in benches for share in SHARES]
        title = titled("Data efficiency: shares of all samples, %", variant)
        usual = ("eata", "sar", "deyo", "dualtta")
        tables.append(method_table(numbered("efficiency", i), title, some, columns, usual, "efficiency"))
    return tables


def _share(bench: str, share: str) -> Column:
    model = bench.split("/", 1)[1] if "/" in bench else ""
    title = f"{IMAGENET_C['mild'].title} {BACKBONES.get(model, model)}" if model else SHIFTS[bench].title

    def told(method: str) -> Reported | None:
        found = reported("efficiency", method, "imagenet_c" if model else bench, column=share)
        return Reported(found.value, (*found.notes, UNSAID)) if found and model else found

    return Column(f"{title}, {SHARES[share]}", bench, share, paper=told)


QUADRANTS = {  # of (Diff_sa, Diff_sp)
    "falls_holds": "D+ (falls, holds)",
    "stays_breaks": "D- (stays, breaks)",
    "falls_breaks": "falls, breaks",
    "stays_holds": "stays, holds",
}


def quadrants(collected: Collected) -> list[Table]:
    """Share of samples and share correct in each quadrant, for every setting that looks at both drops."""
    found = [
        setting
        for setting in collected.settings
        if setting.each(("quadrants", "falls_holds", "count")) and not {"tau_sa", "tau_sp"} & set(changes(setting))
    ]
    if not found:
        return []
    notes, rows = Notes(), []
    for setting in sorted(found, key=lambda one: (place_name(one), rank(one.method), label(one))):
        values: list[Value | str] = []
        for corner in QUADRANTS:
            counts = setting.each(("quadrants", corner, "count"))
            counts = {seed: 100 * count / setting.samples for seed, count in counts.items()}
            values += [plain(setting, counts, notes), _correct(setting, corner, notes)]
        drop = setting.about["method"].get("drop", "absolute")
        rows.append(Row(f"{place_name(setting)}: {label(setting)}", (str(drop), *values)))
    header = ("setting", "drops", *(f"{title}, {what}" for title in QUADRANTS.values() for what in ("samples", "correct")))
    below = notes.below(rows, "samples: of all; correct: of those in the quadrant; whom nobody looked at is in none")
    return [Table("quadrants", "Quadrants of the two drops, %", header, tuple(rows), below)]


def plain(setting: Setting, each: dict[int, float], notes: Notes) -> Value:
    """A value from numbers by seed."""
    mean, deviation = over_seeds(each)
    return Value(mean, deviation, len(each), setting.samples, marks=notes.marks(remarks(setting)))


def _correct(setting: Setting, corner: str, notes: Notes) -> Value:
    at, key = locate(setting), {"falls_holds": "likely_correct.correct", "stays_breaks": "likely_incorrect.correct"}
    ours = at is not None and at[0].startswith("mild/") and at[1] == "impulse_noise" and setting.method == "dualtta"
    told = reported("quadrants", column=key[corner]) if ours and corner in key else None
    return value([setting], ("quadrants", corner, "correct"), notes, reported=told)
