"""`dualtta diagnose`: the supplement's theory on a model and a dataset. It imports late."""

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
    """Measure the paper's theory: margins and flips, Theorem 1's bound, style gradients, first-order approximation.

    Args:
        dataset: A name from `dualtta list datasets`.
        root: The folder of the dataset; the embedded digits need none.
        choose: Settings of the dataset, such as corruptions=["contrast"].
        domains: Domains, separated by commas; by default all.
        model: A name from `dualtta list models`, or timm:NAME.
        weights: A file, a folder that `dualtta train` made, or `pretrained`; by default the source model is trained.
        sources: The folder of source models.
        method: The method that selects D+ and D-.
        set: Settings of the method, such as tau_sp=0.2 drop=relative.
        layer: The layer of the style; by default that of the style view.
        limit: The maximal number of samples, drawn from all domains together.
        batch_size: Samples in a batch; the style's deviation is taken over it.
        scales: Multiples of the drawn perturbation, separated by commas.
        reach: The largest multiple at which a flip is searched.
        adapting: Adapt the model along the stream; otherwise every batch is predicted by the source model.
        lr: Learning rate of --adapting; by default that of the method.
        out: The folder for tables and figures.
        device: cpu, cuda, cuda:1, ...; by default the first GPU, if any.
        seed: Of the stream and of the draws.
        json: Print the numbers and findings as JSON.
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
    deployed = open_deployed(model, home)  # of any classes: labels are not used
    out.mkdir(parents=True, exist_ok=True)  # an error here, before the work
    with progress("samples", total=len(stream)) as bar:
        diagnosis = measure(
            deployed.model.to(place).double(),  # small differences are measured
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
