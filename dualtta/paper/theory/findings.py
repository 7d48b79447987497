"""Counts, medians and shares of a diagnosis, and its findings in words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dualtta.records.metrics import Column

GROUPS = ("D+", "D-", "rest")
CLOSE = 0.1  # the largest relative error at which the first-order approximation counts as accurate
ENOUGH = 5  # samples that a comparison of groups needs
CHANCE = 0.05  # level of significance


def summarise(
    columns: Mapping[str, Column],
    predicted: Mapping[str, Column],
    actual: Mapping[str, Column],
    scales: Sequence[float],
    reach: float,
) -> dict[str, Any]:
    """The numbers behind the findings; None where nothing can be measured."""
    directed, flipped = columns["directed"], columns["flip_class"] >= 0
    masks = group_masks(columns)
    return {
        "samples": len(directed),
        "directed": int(directed.sum()),
        "flips": int(flipped.sum()),
        "censored": int((directed & ~flipped).sum()),
        "reach": reach,
        "flips_at_the_draw": int((columns["flip_scale"][flipped] <= 1).sum()),
        "mirrored": int(columns["mirrored"][flipped].sum()),
        "bound": bound(columns, flipped),
        "margin_and_flip_size": rank_correlation(columns["margin"][flipped], columns["flip_size"][flipped]),
        "groups": {name: group(columns, mask) for name, mask in masks.items()},
        "jacobian_p": chance(columns["jacobian"][masks["D-"]], columns["jacobian"][masks["D+"]]),
        "share_p": chance(columns["share"][masks["D-"]], columns["share"][masks["D+"]]),
        "scales": [
            {"scale": t, **{name: error(predicted[name][directed, i], actual[name][directed, i]) for name in predicted}}
            for i, t in enumerate(scales)
        ],
    }


def group_masks(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Masks of D+, D- and the other samples."""
    plus, minus = columns["plus"], columns["minus"]
    return {"D+": plus, "D-": minus, "rest": ~(plus | minus)}


def bound(columns: Mapping[str, Column], flipped: Column) -> dict[str, Any]:
    """The number of flips with m <= K (|dmu| + |dsigma|), and the ratio of both sides."""
    m, limit = columns["margin"][flipped], columns["bound"][flipped]
    respected = m <= limit
    return {
        "respected": int(respected.sum()),
        "share": float(respected.mean()) if len(m) else None,
        "room": median(limit / np.maximum(m, np.finfo(m.dtype).tiny)),
        "along": float((m <= columns["along"][flipped]).mean()) if len(m) else None,
    }


def group(columns: Mapping[str, Column], mask: Column) -> dict[str, Any]:
    """The medians of a group. Censored samples count as beyond the reach, so the median flipping size may be unknown."""
    directed = mask & columns["directed"]
    beyond = np.where(columns["flip_class"] >= 0, columns["flip_size"], np.inf)[directed]
    middle = float(np.median(beyond)) if len(beyond) else np.inf
    return {
        "samples": int(mask.sum()),
        "flips": int((columns["flip_class"][mask] >= 0).sum()),
        "margin": median(columns["margin"][mask]),
        "flip_size": middle if np.isfinite(middle) else None,
        "K": median(columns["K"][mask]),
        "jacobian": median(columns["jacobian"][mask]),
        "share": median(columns["share"][mask]),
    }


def median(values: Column) -> float | None:
    """The median of the finite values; None without any.

    >>> median(np.array([1.0, np.nan, 3.0])), median(np.array([]))
    (2.0, None)
    """
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if len(finite) else None


def error(predicted: Column, actual: Column) -> dict[str, float | None]:
    """The mean absolute change, the relative error of the first-order approximation, and how often its sign is right.

    >>> error(np.array([1.0, -1.0]), np.array([2.0, -2.0]))
    {'change': 2.0, 'missed': 0.5, 'sign': 1.0}
    """
    total, moves = float(np.abs(actual).sum()), actual != 0
    return {
        "change": float(np.abs(actual).mean()) if len(actual) else None,
        "missed": float(np.abs(predicted - actual).sum()) / total if total else None,
        "sign": float((np.sign(predicted) == np.sign(actual))[moves].mean()) if moves.any() else None,
    }


def rank_correlation(a: Column, b: Column) -> dict[str, float] | None:
    """Spearman's rank correlation with its p-value; None with fewer than ENOUGH samples."""
    if len(a) < ENOUGH or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    from scipy.stats import spearmanr

    found = spearmanr(a, b)
    return {"rank": float(found.statistic), "p": float(found.pvalue)}


def chance(a: Column, b: Column) -> float | None:
    """The p-value of a Mann-Whitney test; None with fewer than ENOUGH samples."""
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    if min(len(a), len(b)) < ENOUGH:
        return None
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b).pvalue)


def sentences(summary: Mapping[str, Any], about: Mapping[str, Any]) -> list[str]:
    """One sentence per finding, with its numbers."""
    lines = [_how(summary, about), *_flips(summary), *_bound(summary), *_margin(summary)]
    lines.append(_compared(summary, "jacobian", "jacobian_p", "the style-Jacobian's norm"))
    if about["theta"]:
        lines.append(_compared(summary, "share", "share_p", "the style share of the gradient |g_s| / |grad L|"))
    else:
        lines.append(f"No parameter that adapts lies below {about['layer']}: g_s and its share are not measured.")
    return [*lines, *_errors(summary)]


def _how(summary: Mapping[str, Any], about: Mapping[str, Any]) -> str:
    norms = "; its BatchNorm layers use the source's statistics" if about["batch_norm"] else ""
    met = "as it adapts along the stream" if about["adapting"] else "as it is before adapting"
    of = f" of {about['of']:,}" if about.get("of", summary["samples"]) != summary["samples"] else ""
    noun = "sample" if summary["samples"] == 1 else "samples"
    return f"{summary['samples']:,}{of} {noun} by {about['model']} {met}, style at {about['layer']}{norms}."


def _flips(summary: Mapping[str, Any]) -> list[str]:
    lines = []
    undirected = summary["samples"] - summary["directed"]
    if undirected:
        lines.append(
            f"{undirected:,} of {summary['samples']:,} samples have no direction of perturbation: a batch of one, or of equal "
            "samples, has no deviation over the batch. They are left out of the findings on flips and first order."
        )
    if not summary["directed"]:
        return lines
    if not summary["flips"]:
        return [
            *lines,
            f"No sample flips within {summary['reach']:g} times its draw: Theorem 1 cannot be tested on these samples.",
        ]
    flips, all_ = summary["flips"], summary["directed"]
    lines.append(
        f"{flips:,} of {all_:,} samples flip within {summary['reach']:g} times their draw, {summary['flips_at_the_draw']:,} of "
        f"them within the draw itself; the other {summary['censored']:,} are censored."
    )
    if summary["mirrored"]:
        lines.append(
            f"At {percent(summary['mirrored'] / flips)} of the flips a channel's deviation is below zero: the formula as "
            "printed then negates the content of that channel, which is more than a change of style."
        )
    return lines


def _bound(summary: Mapping[str, Any]) -> list[str]:
    flips, limit = summary["flips"], summary["bound"]
    if not flips:
        return []
    what, broken = "Theorem 1's bound m <= K (|dmu| + |dsigma|), without its o() term,", flips - limit["respected"]
    proof = (
        f"The proof's step before it, m <= |grad(s_y - s_k) . (dmu, dsigma)|, holds for {percent(limit['along'])} of the flips."
    )
    if not broken:
        return [f"{what} holds for all {flips:,} flips; it is {limit['room']:.3g} times the margin at the median flip.", proof]
    return [
        f"{what} holds for {percent(limit['share'])} of {flips:,} flips; {broken:,} {'is' if broken == 1 else 'are'} below it: "
        f"to first order only, the inequality need not hold. At the median flip it is {limit['room']:.3g} times the margin.",
        proof,
    ]


def _margin(summary: Mapping[str, Any]) -> list[str]:
    found = summary["margin_and_flip_size"]
    if found is None:
        return []
    rank = found["rank"]
    if not found["p"] <= CHANCE:
        means = f"not significant (p = {found['p']:.2g})"
    elif rank >= 0.5:
        means = "samples near the decision boundary flip under smaller perturbations, as the theorem states"
    elif rank >= 0.2:
        means = "samples with a small margin tend to flip earlier"
    else:
        means = "the margin does not predict the flipping size here"
    return [f"Margin and flipping size have a rank correlation of {rank:.2f} over {summary['flips']:,} flips: {means}."]


def _compared(summary: Mapping[str, Any], key: str, p_key: str, what: str) -> str:
    groups = {name: summary["groups"][name] for name in GROUPS}
    medians = ", ".join(f"{name} {g[key]:.3g} ({g['samples']:,})" for name, g in groups.items() if g[key] is not None)
    listed = f"Medians of {what} (samples): {medians or 'none'}."
    small = [name for name in ("D+", "D-") if groups[name]["samples"] < ENOUGH]
    if small or summary[p_key] is None:
        few = " and ".join(f"{name} holds {groups[name]['samples']}" for name in small) or "too few values are measured"
        return f"{listed} D+ and D- cannot be compared: {few}."
    if summary[p_key] > CHANCE:
        return f"{listed} The difference between D+ and D- is not significant (p = {summary[p_key]:.2g})."
    larger = "larger" if groups["D-"][key] > groups["D+"][key] else "smaller"
    chosen = "; D- is selected by its drop under the same perturbation" if key == "jacobian" else ""
    return f"{listed} It is {larger} on D- than on D+ (p = {summary[p_key]:.1g}{chosen})."


def _errors(summary: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, what in (("gap", "s_y - s_k"), ("probability", "p_y"), ("loss", "the loss")):
        missed = [(row["scale"], row[name]["missed"]) for row in summary["scales"] if row[name]["missed"] is not None]
        if not missed:
            continue
        listed = ", ".join(f"{percent(share)} at {t:g}" for t, share in missed)
        holds = 0.0
        for t, share in missed:
            if share > CLOSE:
                break
            holds = t
        if holds == missed[-1][0]:
            end = f"at most {percent(CLOSE)} at every scale"
        elif holds:
            end = f"at most {percent(CLOSE)} up to {holds:g} times the draw"
        else:
            end = f"more than {percent(CLOSE)} even at {missed[0][0]:g} times the draw"
        lines.append(f"Relative error of the first-order change of {what}: {listed} times the draw; {end}.")
    return lines


def percent(share: float) -> str:
    """
    >>> percent(0.1234), percent(0.00012)
    ('12.3 %', '0.012 %')
    """
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else f"{100 * share:.2g} %"
