"""`dualtta adapt`. Other modules are imported in the function, so that --help is quick."""

import json as jsonlib
import sys
from pathlib import Path
from typing import Any

from dualtta.protocols import DEFAULT_METHOD


def adapt(
    *,
    weights: str,
    images: Path,
    model: str | None = None,
    out: Path = Path("predictions.csv"),
    classes: str | None = None,
    method: str = DEFAULT_METHOD,
    set: list[str] = [],  # noqa: B006 (read only)
    lr: float | None = None,
    batch_size: int = 64,
    state: Path | None = None,
    resume: bool = False,
    save_every: float = 5.0,
    device: str | None = None,
    seed: int = 0,
    speed: str = "safe",
    json: bool = False,
) -> int:
    """Adapt your model over a folder of unlabelled images; predictions are written to a CSV file.

    Args:
        weights: A safetensors or .pt file of the model's weights, a folder that `dualtta train` made, or `pretrained`.
        images: The folder; images in its subfolders are included, in sorted order.
        model: A name that `dualtta list` shows, or timm:NAME; not needed for weights made by `dualtta train`.
        out: The CSV file, with columns path, class, name, confidence, entropy, d_plus, d_minus, error.
        classes: The number of classes, or a file with one class name per line; by default the number that the weights have.
        method: A name that `dualtta list` shows.
        set: Hyper-parameters of the method, such as reduction=mean tau_sp=0.5.
        lr: Learning rate; by default 1e-4 for networks whose norm layers are all LayerNorm, else 5e-4.
        batch_size: Number of images in a batch.
        state: The file for the adapted state; by default beside the CSV file, ending in .safetensors.
        resume: Continue where the last run stopped.
        save_every: Seconds between two saves of the state.
        device: cpu, cuda, cuda:1, ...; by default the first GPU, else the CPU.
        seed: Seed of the method's random draws.
        speed: naive, safe (exact savings only); on a GPU half (bfloat16), compiled, or fast (both).
        json: Print a summary as JSON.
    """
    from dualtta.deploy import adapt_folder
    from dualtta.deploy.interruption import Interruption
    from dualtta.deploy.model import open_deployed, parse_method
    from dualtta.device import pick_device
    from dualtta.wrap import adapt as make_adapter

    chosen, place = parse_method(method, set), pick_device(device)
    deployed = open_deployed(model, weights, classes)
    adapter = make_adapter(deployed.model.to(place), chosen, lr=lr, seed=seed, copy=False, speed=speed)
    with Interruption() as interruption:
        summary: dict[str, Any] = adapt_folder(
            adapter,
            deployed.preprocess,
            images,
            out,
            state=state,
            names=deployed.names,
            origin=deployed.origin,
            batch_size=batch_size,
            resume=resume,
            save_every=save_every,
            device=place,
            stop=interruption,
        )
    if json:
        print(jsonlib.dumps(summary, indent=2))
    else:
        bad = f", {summary['unreadable']} unreadable" if summary["unreadable"] else ""
        print(f"{summary['done']} of {summary['images']} images{bad}: {summary['csv']}, {summary['state']}")
    if summary["interrupted"]:
        print("dualtta: interrupted; continue with --resume", file=sys.stderr)
    return interruption.code if summary["interrupted"] else 0
