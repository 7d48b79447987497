"""Speeds by name: the savings that an adapter uses.

naive     every view of every sample in a whole forward pass: the reference
safe      the savings that change no result on this model, found on its first batch (the default)
half      safe, and on a GPU in bfloat16, channels-last where it helps: starts at once
compiled  safe, and on a GPU also compiled forward passes in CUDA graphs, channels-last where it helps: starts after a minute
fast      compiled, in bfloat16
"""

from dataclasses import dataclass
from typing import Any, Literal

from dualtta.plugins import nearest


@dataclass(frozen=True)
class Speed:
    """The savings of an adapter. Losses, statistics and drops are in float32 or wider at every precision."""

    shortcuts: bool = True  # exact shortcuts, see `dualtta.model.shortcuts`
    micro_batch: int | None = None  # samples in one forward pass, where samples are independent: less memory
    precision: Literal["bf16"] | None = None  # autocast of the forward passes; None: the model's own
    channels_last: bool = False
    compile: bool = False  # torch.compile of the forward passes, once for each number of samples
    graphs: bool = False  # CUDA graphs of the compiled passes: no kernel launches, more memory
    backend: str | None = None  # of torch.compile

    def __post_init__(self) -> None:
        micro = self.micro_batch
        if micro is not None and (isinstance(micro, bool) or not isinstance(micro, int) or micro < 1):
            raise ValueError(f"micro_batch must be a whole number of at least 1, not {micro!r}")
        if self.precision not in (None, "bf16"):
            raise ValueError(f'precision must be "bf16" or None, not {self.precision!r}')

    def compile_options(self) -> dict[str, Any]:
        chosen = {"backend": self.backend, "mode": "reduce-overhead" if self.graphs else None}
        return {name: value for name, value in chosen.items() if value is not None}


SPEEDS = {
    "naive": Speed(shortcuts=False),
    "safe": Speed(),
    "half": Speed(precision="bf16", channels_last=True),
    "compiled": Speed(channels_last=True, compile=True, graphs=True),
    "fast": Speed(precision="bf16", channels_last=True, compile=True, graphs=True),
}


def find_speed(speed: "str | Speed", cuda: bool) -> Speed:
    """A speed by its name. On a CPU the last three are `safe`: compiling takes minutes there, and bfloat16 is not faster."""
    if isinstance(speed, Speed):
        return speed
    if not isinstance(speed, str) or speed not in SPEEDS:
        raise ValueError(f"there is no speed {speed!r}; {nearest(str(speed), SPEEDS)}")
    found = SPEEDS[speed]
    return SPEEDS["safe"] if (found.compile or found.precision) and not cuda else found
