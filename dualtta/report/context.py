"""What has to be said of a number before it is compared: what it was measured on, with which weights, and what went wrong."""

from collections.abc import Mapping
from typing import Any

from dualtta.data.published import OFFICE_HOME, PACS, WATERBIRDS
from dualtta.report.gather import Setting

# what the paper runs its datasets with
PAPER_MODELS = {
    "colored_mnist": ("resnet18",),
    "waterbirds": ("resnet50",),
    "pacs": ("resnet50",),
    "office_home": ("resnet50",),
    "imagenet_c": ("resnet50", "resnet50_gn", "vit_base_patch16_224"),
}
PAPER_BATCH = 64
SIZES: dict[str, int | Mapping[str, int]] = {  # images of a domain, as published
    "colored_mnist": 20_000,
    "waterbirds": WATERBIRDS.domains,
    "pacs": PACS.domains,
    "office_home": OFFICE_HOME.domains,
    "imagenet_c": 50_000,
}
KNOWN = ("domains", "limit", "batch_size", "repeats")  # of a stream, named below in words


def context(setting: Setting) -> tuple[str, ...]:
    """In what the choices behind a setting differ from the paper's, or from all of the data; rows that share it compare."""
    return (*_subset(setting), *_model(setting), *_stream(setting), *_data(setting))


def remarks(setting: Setting) -> tuple[str, ...]:
    """The context, what the seeds differ in though nobody chose it, and whether it collapsed."""
    collapsed = f"predictions collapsed onto few classes in {setting.collapsed} of {len(setting.seeds)} seeds"
    return (*context(setting), *setting.caveats, *([collapsed] if setting.collapsed else []))


def _subset(setting: Setting) -> list[str]:
    """Where the stream was cut, or the copy of the dataset lacks images that were published."""
    limit, said = setting.stream.get("limit"), []
    if setting.about["subset"]:
        size = f"{limit:,}" if isinstance(limit, int) else str(limit)
        said.append(f"a subset: at most {size} samples of a domain")
    here, there = setting.records[0].part("data", "images"), published_images(setting)
    if there is not None and isinstance(here, int) and here != there:
        said.append(f"a copy of the dataset with {here:,} images; {there:,} were published")
    return said


def published_images(setting: Setting) -> int | None:
    """As many as the domains of a dataset of the paper hold as published; None for other datasets and other domains."""
    each = SIZES.get(setting.dataset)
    if each is None:
        return None
    counts = [each if isinstance(each, int) else each.get(str(domain)) for domain in setting.about["domains"]]
    return None if None in counts else sum(count for count in counts if count is not None)


def _model(setting: Setting) -> list[str]:
    """Whose weights these are, where they are not the paper's."""
    said = []
    usual = PAPER_MODELS.get(setting.dataset)
    if usual and setting.model not in usual:
        said.append(f"{setting.model} instead of the paper's {' or '.join(usual)}")
    source, weights = setting.source, setting.cell["model"].get("weights")
    if source is None and weights is None:
        said.append("random weights: the model was never trained")
    elif source is None and weights != "pretrained":
        said.append(
            f"other weights than the published ones (a file, sha256 {setting.records[0].part('model', 'weights_hash')})"
        )
    if source is not None:
        said += [f"the source model saw at most {source['limit']} samples"] if source.get("limit") else []
        start = source.get("weights")
        if usual and setting.dataset != "colored_mnist" and start != "pretrained":
            said.append(f"the source model starts from {_start(start)}, not from the published ImageNet weights")
    return said


def _start(weights: Any) -> str:
    return "random weights" if weights is None else f"a file ({str(weights)[:23]})"


def _stream(setting: Setting) -> list[str]:
    said = []
    size = setting.stream.get("batch_size", PAPER_BATCH)
    if setting.dataset in PAPER_MODELS and size != PAPER_BATCH:
        said.append(f"batches of {size} instead of the paper's {PAPER_BATCH}")
    said += setting.passes
    return said + [f"{key} {value} in the stream" for key, value in sorted(setting.stream.items()) if key not in KNOWN]


def _data(setting: Setting) -> list[str]:
    """Where images were corrupted by us rather than by the authors of the dataset."""
    drawn = setting.dataset == "imagenet_c" and setting.records[0].part("data", "drawn")
    return ["corrupted on the fly from ImageNet images, not the published files"] if drawn else []
