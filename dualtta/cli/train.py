"""`dualtta train`: train a source model. It imports late."""

from pathlib import Path


def train(
    dataset: str,
    root: Path | None = None,
    model: str | None = None,
    out: Path = Path("sources"),
    weights: str | None = None,
    epochs: int | None = None,
    lr: float | None = None,
    batch_size: int | None = None,
    domains: str | None = None,
    seed: int = 0,
    device: str | None = None,
    limit: int | None = None,
    json: bool = False,
) -> int:
    """Train a source model by the recipe of its dataset. An interrupted training resumes; a finished one is kept.

    Args:
        dataset: A name from `dualtta list datasets`.
        root: The folder of the dataset; the embedded digits need none.
        model: A name from `dualtta list models`, or timm:NAME; by default the usual one for the dataset.
        out: The folder of source models; each gets a folder in it, named by its settings.
        weights: Initial weights: a file, `pretrained` (from the hub) or `random`; by default those of the recipe.
        epochs: Epochs; by default those of the recipe.
        lr: Learning rate; by default that of the recipe.
        batch_size: Samples per batch; by default those of the recipe.
        domains: The domains to train on, separated by commas.
        seed: Seed of the weights, the order and the held-out images.
        device: cpu, cuda, cuda:1, ...; by default the first GPU, if any.
        limit: The maximal number of training images; noted in the model card.
        json: Print the model card.
    """
    import sys

    from dualtta.train import make_source
    from dualtta.train import train as train_source
    from dualtta.train.card import read_card

    changes = {key: value for key, value in (("epochs", epochs), ("lr", lr), ("batch_size", batch_size)) if value is not None}
    choices = {} if domains is None else {"domains": [name.strip() for name in domains.split(",")]}
    source = make_source(dataset, model, weights=weights, choices=choices, seed=seed, limit=limit, **changes)
    folder = train_source(source, out, root, device=device)
    if json:
        sys.stdout.write((folder / "card.json").read_text(encoding="utf-8"))
        return 0
    card = read_card(folder)
    scores = ", ".join(f"{name} {values['accuracy']:.1%}" for name, values in card["accuracy"].items())
    print(f"{card['model']} on {dataset}: {scores}; epoch {card['epoch']}, {card['seconds']:.0f} s\n{folder}")
    return 0
