"""`dualtta train`: what the command line runs. Everything else is imported late, so that --help answers at once."""

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
    """Train a source model by its dataset's recipe; goes on where it was stopped, and returns at once where it is done.

    Args:
        dataset: A name that `dualtta list` shows.
        root: The folder the dataset lies in; the embedded digits need none.
        model: A name that `dualtta list` shows, or timm:NAME; unless told, the one that is usual for the dataset.
        out: The folder for source models; each gets a folder in it, named by its settings.
        weights: What to start from: a file, `pretrained` (asks the hub) or `random`; unless told, the dataset's usual.
        epochs: Instead of the recipe's.
        lr: Instead of the recipe's.
        batch_size: Instead of the recipe's.
        domains: The domains to train on, with commas between them.
        seed: Of the weights, the order and the held-out images.
        device: cpu, cuda, cuda:1, ...; unless told, the first GPU where there is one.
        limit: Train on at most so many images; the card says so.
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
