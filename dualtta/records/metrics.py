"""Metrics of a run, computed from its per-sample columns alone: pure functions of arrays of shape (samples,)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
LOW_ENTROPY = 0.4  # of ln C: the entropy below which the baselines call a prediction reliable


def share(mask: Column) -> float:
    """The share of true entries; NaN for an empty array.

    >>> share(np.array([True, False]))
    0.5
    """
    return float(np.mean(mask)) if len(mask) else float("nan")


def by_name(correct: Column, number: Column, names: tuple[str, ...]) -> dict[str, float]:
    """The accuracy within each domain or group that has samples.

    >>> by_name(np.array([True, False, True]), np.array([0, 0, 1]), ("photo", "sketch"))
    {'photo': 0.5, 'sketch': 1.0}
    """
    return {name: share(correct[number == i]) for i, name in enumerate(names) if (number == i).any()}


def calibration_error(confidence: Column, correct: Column, bins: int = 15) -> float:
    """The expected calibration error: |accuracy - confidence| of equal-width bins, weighted by their share.

    >>> round(calibration_error(np.array([0.9, 0.9]), np.array([True, False])), 3)
    0.4
    """
    number = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    gaps = [
        (number == b).mean() * abs(correct[number == b].mean() - confidence[number == b].mean())
        for b in range(bins)
        if (number == b).any()
    ]
    return float(sum(gaps))


def quadrants(rows: dict[str, Column], tau_sa: Any, tau_sp: Any) -> dict[str, dict[str, float]]:
    """Count and accuracy in the four quadrants of (Diff_sa, Diff_sp). Samples that were not evaluated (NaN) are in none."""
    alter, preserve, correct = rows["drop_alter"], rows["drop_preserve"], rows["prediction"] == rows["label"]
    falls, stays, holds, breaks = alter > tau_sa, alter < tau_sa, preserve < tau_sp, preserve > tau_sp
    corners = {
        "falls_holds": falls & holds,
        "falls_breaks": falls & breaks,
        "stays_holds": stays & holds,
        "stays_breaks": stays & breaks,
    }
    return {name: {"count": int(mask.sum()), "correct": share(correct[mask])} for name, mask in corners.items()}


def summarise(
    rows: dict[str, Column], classes: int, domains: tuple[str, ...], groups: tuple[str, ...], method: dict[str, Any]
) -> dict[str, Any]:
    """The metrics of one run, as they stand in summary.json.

    The literature calls three averages "accuracy": `accuracy` is over samples, `mean_of_domains` and `mean_of_groups` are means
    of the accuracies of each.

    Args:
        rows: The columns of `records.format.COLUMNS`, each of shape (samples,).
        classes: How many there are.
        domains, groups: The names that the numbers in `rows["domain"]` and `rows["group"]` stand for.
        method: The method's settings; with `tau_sa` and `tau_sp` the quadrants are computed.
    """
    correct = rows["prediction"] == rows["label"]
    plus, minus = rows["plus"], rows["minus"]
    domain, group = by_name(correct, rows["domain"], domains), by_name(correct, rows["group"], groups)
    evaluated = not np.isnan(rows["drop_alter"]).all() and not np.isnan(rows["drop_preserve"]).all()
    tau_sa, tau_sp = method.get("tau_sa"), method.get("tau_sp")
    both = evaluated and tau_sa is not None and tau_sp is not None
    return {
        "samples": len(correct),
        "accuracy": share(correct),
        "domains": domain,
        "mean_of_domains": float(np.mean(list(domain.values()))),
        "groups": group,
        "mean_of_groups": float(np.mean(list(group.values()))) if group else None,
        "worst_group": min(group.values()) if group else None,
        "calibration_error": calibration_error(rows["confidence"], correct),
        "mean_entropy": float(rows["entropy"].mean(dtype=np.float64)),
        "low_entropy": share(rows["entropy"] < LOW_ENTROPY * np.log(classes)),
        "adapt": share(plus | minus),
        "corr_adapt": share((plus & correct) | (minus & ~correct)),
        "plus": {"share": share(plus), "correct": share(correct[plus]) if plus.any() else None},
        "minus": {"share": share(minus), "correct": share(correct[minus]) if minus.any() else None},
        "quadrants": _finite(quadrants(rows, tau_sa, tau_sp)) if both else None,
    }


def _finite(corners: dict[str, dict[str, float]]) -> dict[str, dict[str, float | None]]:
    """The accuracy of an empty quadrant is None, as JSON has no NaN."""
    return {name: {"count": c["count"], "correct": c["correct"] if c["count"] else None} for name, c in corners.items()}
