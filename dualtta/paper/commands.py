"""`dualtta diagnose`: the supplement's theory on a model and a dataset. Everything else is imported late."""

import sys
from pathlib import Path


def diagnose(
    *,
    dataset: str,
    root: Path | None = None,
    choose: list[str] = [],  # noqa: B006 (read only)
    domains: str | None = None,
    model: str | None = None,
    weights: str | None = None,
    sources: Path = Path("sources"),
    method: str = "dualtta",
    set: list[str] = [],  # noqa: B006 (read only)
    layer: str | None = None,
    limit: int = 512,
    batch_size: int = 64,
    scales: str = "0.01,0.03,0.1,0.3,1,3",
    reach: float = 8.0,
    adapting: bool = False,
    lr: float | None = None,
    out: Path = Path("diagnosis"),
    device: str | None = None,
    seed: int = 2024,
    json: bool = False,
) -> int:
    """Measure the paper's theory: margins and flips, Theorem 1's bound, the style part of the gradient, first order.

    Args:
        dataset: A name that `dualtta list` shows.
        root: The folder the dataset lies in; the embedded digits need none.
        choose: Settings of the dataset, such as corruptions=["contrast"].
        domains: The domains to look at, with commas between them; all unless told.
        model: A name that `dualtta list` shows, or timm:NAME.
        weights: A file, a folder that `dualtta train` made, or `pretrained`; unless told, the source model is trained here.
        sources: Where a source model that is trained here is kept, or found.
        method: Whose D+ and D- the samples are sorted into.
        set: Settings of the method, such as tau_sp=0.2 drop=relative.
        layer: Where the style is taken; unless told, where the style view sits.
        limit: At most so many samples, drawn from all domains together.
        batch_size: Samples in a batch; the style's deviation is taken over it.
        scales: Multiples of the drawn perturbation, with commas between them.
        reach: How far flips are looked for, in multiples of the draw.
        adapting: Let the model adapt along the stream; else every batch meets the source model.
        lr: Learning rate of adapting; unless told, 1e-4 for nets with LayerNorm alone, else 5e-4.
        out: The folder for tables and figures.
        device: cpu, cuda, cuda:1, ...; unless told, the first GPU where there is one.
        seed: Of the stream and of the draws.
        json: Print the numbers and the sentences as JSON.
    """
    from dualtta.data.loading import load
    from dualtta.data.registry import DATASETS, open_dataset
    from dualtta.deploy.model import open_deployed, parse_method, parse_settings
    from dualtta.device import pick_device
    from dualtta.paper.theory import diagnose as measure
    from dualtta.paper.theory.sources import source_model
    from dualtta.paper.theory.writing import as_json, tables
    from dualtta.progress import progress
    from dualtta.records.format import to_json
    from dualtta.streams.scenarios import make_scenario

    name = dataset if dataset in DATASETS else dataset.replace("-", "_")
    chosen, place, steps = parse_method(method, set), pick_device(device), _numbers(scales)
    data = open_dataset(name, root, **parse_settings(choose))
    among = None if domains is None else tuple(part.strip() for part in domains.split(","))
    stream = make_scenario("mixed", limit=limit, batch_size=batch_size, domains=among).stream(data, seed)
    home = weights or str(source_model(name, model, sources, root, device))
    deployed = open_deployed(model, home)  # of any classes: labels are not looked at
    out.mkdir(parents=True, exist_ok=True)  # now, not after all the work
    with progress("samples", total=len(stream)) as bar:
        diagnosis = measure(
            deployed.model.to(place).double(),  # small differences are what is measured: they must not be rounding
            load(data, stream, deployed.preprocess, device=place, workers=0),
            chosen,
            layer=layer,
            scales=steps,
            reach=reach,
            adapting=adapting,
            lr=lr,
            seed=seed,
            notice=bar.advance,
        )
    diagnosis.about.update(dataset=data.about(), domains=among, batch_size=batch_size, limit=limit, weights=deployed.origin)
    diagnosis.about["of"] = int(sum((data.domain == data.domains.index(d)).sum() for d in among or data.domains))
    files = diagnosis.write(out)
    if json:
        sys.stdout.write(to_json({**as_json(diagnosis), "files": [str(path) for path in files]}).decode())
        return 0
    from dualtta.printing import table

    groups, by_scale = tables(diagnosis.summary)
    table(*groups, "Medians by group of samples")
    table(*by_scale, "First order by multiples of the drawn perturbation")
    print("", *diagnosis.sentences, "", sep="\n")
    print(f"tables and figures in {out}")
    return 0


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"scales are numbers separated by commas, such as 0.1,1, not {text!r}") from error
