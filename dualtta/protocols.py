"""Named protocols of hyper-parameters, because "why do my numbers differ?" is the field's first question.

`paper`: one learning rate for all methods, as the DualTTA paper prints it. `own`: each baseline's rate as its authors' code has
it. The other hyper-parameters are the authors' in both. A method's class carries its rates (`Method.rates`,
`Method.published_rates`) and its dataset-dependent settings (`Method.settings_for`).
"""

from dataclasses import dataclass
from typing import Literal

DEFAULT_METHOD = "dualtta_safe"  # of `adapt` and of the command line
Protocol = Literal["paper", "own"]
PROTOCOLS: tuple[Protocol, ...] = ("paper", "own")
SPURIOUS = ("colored_mnist", "colored_digits", "waterbirds")  # datasets with a spurious correlation


@dataclass(frozen=True)
class Situation:
    """What published hyper-parameters depend on."""

    dataset: str
    layer_norm: bool = False  # all norm layers of the model are LayerNorm or RMSNorm
    classes: int = 1000
    wild: bool = False  # imbalanced or mixed
    batch_size: int = 64


def check_protocol(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise ValueError(f"there is no protocol {protocol!r}; there are: {', '.join(PROTOCOLS)}")


def scaled_rate(rate: float, at: Situation) -> float:
    """A rate published for batches of 64, at another batch size, by the rule of the baselines' code.

    >>> scaled_rate(2.5e-4, Situation("imagenet_c")), scaled_rate(1e-3, Situation("imagenet_c", layer_norm=True, batch_size=32))
    (0.00025, 0.0005)
    """
    if at.layer_norm:
        return rate * at.batch_size / 64
    return rate * at.batch_size / 64 * 2 if at.batch_size < 32 else rate
