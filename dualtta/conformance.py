"""Golden vectors: replay recorded streams through the methods and report, case by case, the worst error.

    dualtta conformance DIR

A folder holds `methods/cases.json`, the cases' arrays and the nets' weights; or `corruptions.npz` and `frost/`; or both. No
code of the folder is run: the three nets that cases may name are built here, by the shapes of their weights.
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from dualtta.adapter import Adapter
from dualtta.fisher import estimate_fisher
from dualtta.method import Method, Step, entropy
from dualtta.methods import METHODS, make_method
from dualtta.methods.deyo import DeYO
from dualtta.methods.dualtta import DualTTA
from dualtta.methods.eata import EATA
from dualtta.methods.sar import SAR
from dualtta.streams import label_shift
from dualtta.views import VIEWS, PatchShuffle, Style
from dualtta.wrap import adapt

Arrays = dict[str, NDArray[Any]]
LOGITS, OTHERS = 1e-6, 1e-8  # how far float64 may be off
DROPS = {"alter": "diff_sa", "preserve": "diff_sp"}  # what a view's drops are recorded as
NOT_METHODS = {"name", "net", "method", "lr", "momentum", "layer", "view"}


@dataclass(frozen=True)
class Verdict:
    """What came of one case. `worst` is the largest error of its float arrays, None where nothing could be compared."""

    case: str
    ok: bool
    worst: float | None
    why: str = ""


def check_folder(folder: str | Path, progress: Callable[[list[Any]], Any] = iter) -> list[dict[str, Any]]:
    """Verdicts on all that the folder holds, as plain dicts: case, ok, worst, why."""
    from dualtta.data.corruptions.conformance import check as check_corruptions  # it needs Verdict from here

    folder = Path(folder)
    listing = folder / "methods" / "cases.json"
    verdicts = [check_case(listing.parent, case) for case in progress(read_cases(listing))]
    verdicts += [*check_corruptions(folder, progress), *label_shift.check(folder, progress)]
    if not verdicts:
        raise ValueError(f"{folder} holds no golden vectors: no methods/cases.json, corruptions.npz or {label_shift.FILES}")
    return [asdict(verdict) for verdict in verdicts]


def read_cases(listing: Path) -> list[dict[str, Any]]:
    """The cases of a listing, none where there is no listing; a ValueError where it is something else."""
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
    """Replay one case in float64 and compare."""
    name = case["name"]
    if str(case.get("method")) not in METHODS:
        return Verdict(name, False, None, f"not there yet: the method {case.get('method')!r}")
    try:
        arrays = read_arrays(folder / f"{name}.npz")
        net = build_net(case["net"], read_arrays(folder / f"net_{case['net']}.npz"))
        errors = [error for step in replay(net, case, arrays) for error in step]
    except Exception as error:  # a damaged file may raise anything, and the other cases are still to be judged
        said = f"there is no {error}" if isinstance(error, KeyError) else str(error).split("\n")[0]
        return Verdict(name, False, None, f"cannot be replayed: {said or type(error).__name__}")
    wrong = [error.why for error in errors if error.why]
    sizes = [error.size for error in errors if math.isfinite(error.size)]
    return Verdict(name, not wrong, max(sizes, default=None), "; ".join(dict.fromkeys(wrong)))


def replay(net: nn.Module, case: dict[str, Any], arrays: Arrays) -> Iterator[list["Error"]]:
    """Run the recorded stream by the recorded draws; yields the errors of each batch, then those of the end."""
    method = method_of(case, arrays)
    after = {key.removeprefix("after/"): value for key, value in arrays.items() if key.startswith("after/")}
    insist_whole(arrays, method, after)
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
    kind = METHODS[case["method"]]
    fields = {key: value for key, value in case.items() if key not in NOT_METHODS}
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


def insist_whole(arrays: Arrays, method: Method, after: Arrays) -> None:
    """A ValueError where a part is missing or of another length than the stream: what is not compared must not pass."""
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
    def recorded(key: str) -> NDArray[Any] | None:
        return arrays[key][t] if key in arrays else None

    masks = [(key, getattr(step, key), recorded(key)) for key in ("plus", "minus")]
    errors = [compare_masks(key, ours.numpy(), theirs) for key, ours, theirs in masks if theirs is not None]
    errors.append(compare_floats("logits", step.logits.numpy(), arrays["logits"][t], LOGITS))
    shortcuts = "preserve" in adapter.method.views  # exact shortcuts may leave out drops and weights nobody needs
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
    """alpha and beta: of whoever takes part as the step has them, of the others, whom it gives none, by their equations."""
    if not isinstance(method, EATA | DeYO | DualTTA):
        return step.weight, step.weight
    beta = (method.ent0 * math.log(step.logits.shape[1]) - entropy(step.logits.log_softmax(1))).exp()
    alpha = beta + step.drops["alter"].exp() if "alter" in method.views else beta
    alpha = alpha + (method.diff0 - step.drops["preserve"]).exp() if isinstance(method, DualTTA) else alpha
    return torch.where(step.plus, step.weight, alpha), torch.where(step.minus, step.weight, beta)


@dataclass(frozen=True)
class Error:
    size: float
    why: str = ""


def compare_masks(key: str, ours: NDArray[Any], golden: NDArray[Any]) -> Error:
    if ours.shape != golden.shape:
        return Error(math.inf, f"{key} has shape {ours.shape}, not {golden.shape}")
    off = int((ours != golden).sum())
    return Error(0.0, f"{key} differs for {off} samples" if off else "")


def compare_floats(key: str, ours: NDArray[Any], golden: NDArray[Any], limit: float, *, may_lack: bool = False) -> Error:
    """The largest difference; NaN must stand in the same places, or, with `may_lack`, only where ours has one."""
    if ours.shape != golden.shape:
        return Error(math.inf, f"{key} has shape {ours.shape}, not {golden.shape}")
    lacking = np.isnan(ours)
    misplaced = np.isnan(golden) & ~lacking if may_lack else np.isnan(golden) != lacking
    both = ~lacking & ~np.isnan(golden)
    size = float(np.abs(ours[both] - golden[both]).max(initial=0.0))
    if misplaced.any():
        return Error(size, f"{key} has NaN in other places")
    return Error(size, f"{key} is off by {size:.1e}" if not size <= limit else "")


def to_input(images: NDArray[Any]) -> Tensor:
    """Images (B, H, W, 3) of bytes as the nets take them."""
    return (torch.from_numpy(images).double() / 255 - 0.5).div(0.25).permute(0, 3, 1, 2).contiguous()


def read_arrays(path: Path) -> Arrays:
    """The arrays of an npz file; a ValueError where it is damaged or something else."""
    if not path.is_file():
        raise ValueError(f"there is no file {path.name}")
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:  # zip, npy and their headers each fail in ways of their own
        raise ValueError(f"{path.name} is no npz file of plain arrays, or it is damaged") from error
    if not all(isinstance(value, np.ndarray) for value in arrays.values()):
        raise ValueError(f"{path.name} holds more than arrays")
    return arrays


def build_net(name: str, arrays: Arrays) -> nn.Module:
    """One of the vectors' small nets, sized by its weights, in float64."""
    weights = {key: torch.from_numpy(np.asarray(value)) for key, value in arrays.items()}
    builders = {"bn": small_resnet, "gn": small_resnet, "vit": small_vit}
    if name not in builders:
        raise ValueError(f"there is no net {name!r} among {', '.join(builders)}")
    net = builders[name](weights, name)
    net.load_state_dict(weights)
    return net.double().eval()


def small_resnet(weights: dict[str, Tensor], norm: str) -> nn.Module:
    """A stem and four stages of one convolution each, the second and the fourth halving the map."""

    def block(key: str, stride: int) -> list[nn.Module]:
        out, into, size, _ = weights[key].shape
        conv = nn.Conv2d(into, out, size, stride, size // 2, bias=False)
        return [conv, nn.BatchNorm2d(out) if norm == "bn" else nn.GroupNorm(4, out), nn.ReLU()]

    net = nn.Sequential()
    for part, module in zip(("conv1", "bn1", "relu"), block("conv1.weight", 1), strict=True):
        net.add_module(part, module)
    for stage, stride in enumerate((1, 2, 1, 2), 1):
        net.add_module(f"layer{stage}", nn.Sequential(*block(f"layer{stage}.0.weight", stride)))
    net.add_module("pool", nn.AdaptiveAvgPool2d(1))
    net.add_module("flatten", nn.Flatten())
    net.add_module("fc", nn.Linear(weights["fc.weight"].shape[1], weights["fc.weight"].shape[0]))
    return net


def small_vit(weights: dict[str, Tensor], norm: str) -> nn.Module:
    """A ViT of three heads."""
    width, _, patch, _ = weights["patch_embed.proj.weight"].shape
    side = math.isqrt(weights["pos_embed"].shape[1] - 1) * patch
    depth = 1 + max(int(key.split(".")[1]) for key in weights if key.startswith("blocks."))
    classes = len(weights["head.bias"])
    net: nn.Module = VisionTransformer(
        img_size=side, patch_size=patch, embed_dim=width, depth=depth, num_heads=3, num_classes=classes
    )
    return net
