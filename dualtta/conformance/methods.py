"""Golden vectors of the methods: recorded streams, replayed in float64 with the recorded random draws."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dualtta.adapter import Adapter
from dualtta.conformance.nets import build_net, to_input
from dualtta.conformance.verdict import Arrays, Verdict, read_arrays
from dualtta.fisher import estimate_fisher
from dualtta.method import Method, Step
from dualtta.methods import METHODS, make_method
from dualtta.methods.deyo import DeYO
from dualtta.methods.dualtta import DualTTA
from dualtta.methods.eata import EATA
from dualtta.methods.sar import SAR
from dualtta.probe import entropy
from dualtta.views import VIEWS, PatchShuffle, Style
from dualtta.wrap import adapt

LOGITS, OTHERS = 1e-6, 1e-8  # tolerances in float64
DROPS = {"alter": "diff_sa", "preserve": "diff_sp"}  # under which names the drops of each view are recorded
NOT_METHODS = {"name", "net", "method", "lr", "momentum", "layer", "view"}


def check(folder: Path, progress: Callable[[list[Any]], Any] = iter) -> list[Verdict]:
    """A verdict on each case that the folder's methods/cases.json lists."""
    listing = folder / "methods" / "cases.json"
    return [check_case(listing.parent, case) for case in progress(read_cases(listing))]


def read_cases(listing: Path) -> list[dict[str, Any]]:
    """The cases of a listing; empty where there is no listing, a ValueError where it is damaged or of another kind."""
    if not listing.exists():
        return []
    try:
        cases = json.loads(listing.read_text())
        if not isinstance(cases, list):
            raise TypeError(f"it holds a {type(cases).__name__}")
        return [{**case, "name": str(case["name"])} for case in cases]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{listing} is not a list of cases with a name each: {error}") from error


def check_case(folder: Path, case: dict[str, Any]) -> Verdict:
    """Replay one case and compare."""
    name = case["name"]
    if str(case.get("method")) not in METHODS:
        return Verdict(name, False, None, f"not implemented: the method {case.get('method')!r}")
    try:
        arrays = read_arrays(folder / f"{name}.npz")
        net = build_net(case["net"], read_arrays(folder / f"net_{case['net']}.npz"))
        errors = [error for step in replay(net, case, arrays) for error in step]
    except Exception as error:  # a damaged file may raise anything, and the other cases are still to be compared
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error).split("\n")[0]
        return Verdict(name, False, None, f"cannot be replayed: {reason or type(error).__name__}")
    wrong = [error.why for error in errors if error.why]
    sizes = [error.size for error in errors if math.isfinite(error.size)]
    return Verdict(name, not wrong, max(sizes, default=None), "; ".join(dict.fromkeys(wrong)))


def replay(net: nn.Module, case: dict[str, Any], arrays: Arrays) -> Iterator[list["Error"]]:
    """Adapt over the recorded stream with the recorded draws; yields the errors of each batch, then those of the parameters."""
    method = method_of(case, arrays)
    after = {key.removeprefix("after/"): value for key, value in arrays.items() if key.startswith("after/")}
    check_complete(arrays, method, after)
    wiring: dict[str, Any] = {"parameters": list(after), "statistics": "batch", "layer": case.get("layer")}
    fisher = None
    if "source_images" in arrays:
        batches = [to_input(images) for images in arrays["source_images"]]
        fisher = estimate_fisher(net, batches, origin="source_images", progress=False, **wiring)
    adapter = adapt(net, method, lr=case["lr"], momentum=case.get("momentum", 0.0), fisher=fisher, **wiring)
    for t, images in enumerate(arrays["images"]):
        recorded = {"alter": ["patch_keys"], "preserve": ["eps_mu", "eps_sigma"]}
        draws = {
            view: tuple(torch.from_numpy(arrays[key][t]) for key in keys)
            for view, keys in recorded.items()
            if view in method.views and all(key in arrays for key in keys)
        }
        yield compare_step(adapter.step(to_input(images), draws=draws), adapter, arrays, t)
    end = {name: value.numpy() for name, value in adapter.weights.values().items()}
    yield [compare_floats(f"after/{name}", end[name], value, OTHERS) for name, value in after.items()]


def method_of(case: dict[str, Any], arrays: Arrays) -> Method:
    """The method with the settings of a case."""
    kind = METHODS[case["method"]]
    fields = {key: value for key, value in case.items() if key not in NOT_METHODS}
    fields = kind.from_earlier(fields, arrays["logits"].shape[-1])  # cases give SAR's `recovery` in nats, as its paper does
    known = set(kind.__dataclass_fields__)
    if "tau_ent" in known and "ent0" in fields:
        fields.setdefault("tau_ent", fields["ent0"])
    if "preserve" in known:
        fields["preserve"] = Style(running=False)  # as printed, also for batches of one
    if "alter" in known:
        if (view := VIEWS.get(str(case.get("view", "patch")))) is None:
            raise ValueError(f"there is no view {case['view']!r}")
        grid = math.isqrt(arrays["patch_keys"].shape[-1]) if "patch_keys" in arrays else 4
        fields["alter"] = PatchShuffle(grid) if view is PatchShuffle else view()
    return make_method(kind, **fields)


def check_complete(arrays: Arrays, method: Method, after: Arrays) -> None:
    """A ValueError where an array is missing or of another length than the stream: such a case must not pass."""
    drops = [DROPS[view] for view in method.views]
    for key in ("images", "logits", "plus", "minus", *drops, *(["ema"] if isinstance(method, SAR) else [])):
        if key not in arrays:
            raise ValueError(f"there is no {key!r}")
    if method.update and not after:
        raise ValueError("there is no 'after/<parameter>'")
    stream = arrays["images"].shape[:2]
    if not all(stream):
        raise ValueError("the stream is empty")
    for keys, shape in ((("logits", "plus", "minus", *DROPS.values(), "alpha", "beta"), stream), (("loss", "ema"), stream[:1])):
        for key in keys:
            if key in arrays and (found := arrays[key].shape)[: len(shape)] != shape:
                raise ValueError(f"{key} has shape {found}, the stream is {stream[0]} batches of {stream[1]}")


def compare_step(step: Step, adapter: Adapter, arrays: Arrays, t: int) -> list["Error"]:
    """The errors of one batch."""

    def recorded(key: str) -> NDArray[Any] | None:
        return arrays[key][t] if key in arrays else None

    masks = [(key, getattr(step, key), recorded(key)) for key in ("plus", "minus")]
    errors = [compare_masks(key, ours.numpy(), theirs) for key, ours, theirs in masks if theirs is not None]
    errors.append(compare_floats("logits", step.logits.numpy(), arrays["logits"][t], LOGITS))
    shortcuts = "preserve" in adapter.method.views  # exact shortcuts leave out drops and weights that are not needed
    alpha, beta = weights_of_all(step, adapter.method)
    pairs = {
        **{key: step.drops[view] for view, key in DROPS.items()},
        "alpha": alpha,
        "beta": beta,
        "loss": step.loss,
        "ema": adapter.memory.get("ema", torch.tensor(math.nan)),
    }
    for key, ours in pairs.items():
        if (golden := recorded(key)) is not None:
            may_lack = shortcuts and key not in ("loss", "ema")
            errors.append(compare_floats(key, ours.double().numpy(), golden, OTHERS, may_lack=may_lack))
    return errors


def weights_of_all(step: Step, method: Method) -> tuple[Tensor, Tensor]:
    """alpha and beta of all samples: the step's own for selected samples, computed from the equations for the others."""
    if not isinstance(method, EATA | DeYO | DualTTA):
        return step.weight, step.weight
    beta = (method.ent0 * math.log(step.logits.shape[1]) - entropy(step.logits.log_softmax(1))).exp()
    alpha = beta + step.drops["alter"].exp() if "alter" in method.views else beta
    alpha = alpha + (method.diff0 - step.drops["preserve"]).exp() if isinstance(method, DualTTA) else alpha
    return torch.where(step.plus, step.weight, alpha), torch.where(step.minus, step.weight, beta)


@dataclass(frozen=True)
class Error:
    """The size of a difference, and a reason where it is above the tolerance."""

    size: float
    why: str = ""


def compare_masks(key: str, ours: NDArray[Any], golden: NDArray[Any]) -> Error:
    """Selections must agree exactly."""
    if ours.shape != golden.shape:
        return Error(math.inf, f"{key} has shape {ours.shape}, not {golden.shape}")
    off = int((ours != golden).sum())
    return Error(0.0, f"{key} differs for {off} samples" if off else "")


def compare_floats(key: str, ours: NDArray[Any], golden: NDArray[Any], limit: float, *, may_lack: bool = False) -> Error:
    """The largest difference. NaN must be at the same positions; with `may_lack`, ours may have more."""
    if ours.shape != golden.shape:
        return Error(math.inf, f"{key} has shape {ours.shape}, not {golden.shape}")
    lacking = np.isnan(ours)
    misplaced = np.isnan(golden) & ~lacking if may_lack else np.isnan(golden) != lacking
    both = ~lacking & ~np.isnan(golden)
    size = float(np.abs(ours[both] - golden[both]).max(initial=0.0))
    if misplaced.any():
        return Error(size, f"{key} has NaN at other positions")
    return Error(size, f"{key} is off by {size:.1e}" if not size <= limit else "")
