"""Two named protocols, because 'why do my numbers differ?' is the field's first question.

`paper`: one learning rate for all methods, as the paper says. `own`: each baseline's as its authors' code has it. The other
hyper-parameters are the authors' in both. Methods of our own have their own rates in both. Numbers are for batches of 64
unless a rule says otherwise.
"""

from dataclasses import dataclass
from typing import Any, Literal

from dualtta.core import Method
from dualtta.methods import METHODS

Protocol = Literal["paper", "own"]
PROTOCOLS = ("paper", "own")
PAPER_LR = {"resnet": 5e-4, "vit": 1e-4}
OWN_LR = {"resnet": 2.5e-4, "vit": 1e-3}
BASELINES = ("tent", "eata", "sar", "deyo", "eata_dual", "deyo_dual")
SPURIOUS = {"colored_mnist", "colored_digits", "waterbirds"}  # where DeYO's code multiplies its learning rate by five


@dataclass(frozen=True)
class Situation:
    """What a method's settings may depend on."""

    dataset: str
    backbone: Literal["resnet", "vit"] = "resnet"
    classes: int = 1000
    wild: bool = False  # imbalanced or mixed
    batch_size: int = 64


def family(model: str) -> Literal["resnet", "vit"]:
    """Which of the paper's two learning rates a model takes.

    >>> family("vit_base_patch16_224"), family("efficientnet_lite0")
    ('vit', 'resnet')
    """
    return "vit" if any(part in model for part in ("vit", "deit", "beit")) else "resnet"


def settings_of(method: str, at: Situation, protocol: Protocol = "paper") -> dict[str, Any]:
    """A method's settings, learning rate included; empty for methods that learn nothing.

    >>> settings_of("tent", Situation("imagenet_c"), "own")
    {'lr': 0.00025}
    >>> settings_of("deyo", Situation("waterbirds", classes=2), "own")
    {'lr': 0.00125, 'tau_plpd': 0.5}
    >>> settings_of("dualtta_safe", Situation("cifar10_c", "vit"), "paper")
    {'lr': 0.001}
    >>> settings_of("source", Situation("pacs"))
    {}
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {protocol!r}; there are: {', '.join(PROTOCOLS)}")
    if method in ("source", "norm"):
        return {}
    if method in BASELINES:
        lr = own_lr(method, at) if protocol == "own" else PAPER_LR[at.backbone]
    else:
        lr = METHODS.get(method, Method).rates[at.backbone == "vit"]
    return {"lr": lr, **_thresholds(method, at)}


def own_lr(method: str, at: Situation) -> float:
    """The authors' rules: per batch size, five times for DeYO on spurious correlations, twice for SAR on single images."""
    lr = OWN_LR[at.backbone]
    if at.backbone == "vit":
        lr *= at.batch_size / 64
    elif at.batch_size < 32:
        lr *= at.batch_size / 64 * 2
    if method == "sar" and at.batch_size == 1:
        lr *= 2
    if method.startswith("deyo") and at.dataset in SPURIOUS:
        lr *= 5
    return lr


def _thresholds(method: str, at: Situation) -> dict[str, Any]:
    few = at.classes <= 10
    if method.startswith("eata"):
        return {"epsilon": 0.4, "fisher_alpha": 1.0} if few else {"epsilon": 0.05, "fisher_alpha": 2000.0}
    if method.startswith("deyo"):
        if at.dataset in ("colored_mnist", "colored_digits"):
            return {"tau_plpd": 0.5, "tau_ent": 1.0, "ent0": 1.0}
        if at.dataset == "waterbirds":
            return {"tau_plpd": 0.5}
        return {"tau_plpd": 0.2 if at.wild else 0.3}
    return {}
