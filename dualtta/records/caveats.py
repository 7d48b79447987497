"""What limits a recorded number: a part of the data, other weights than the published ones, a collapse."""

from dualtta.records.reading import Record

STREAM = ("name", "domains", "limit", "batch_size", "repeats", "before")  # of a scenario; any other setting is a caveat
COLLAPSED = "predictions collapsed onto few classes"
ROUNDED = "stored to"  # how the caveat of a compacted record begins


def caveats(record: Record) -> tuple[str, ...]:
    """The caveats of one cell, in words."""
    return (*_data(record), *_weights(record), *_stream(record), *_collapse(record), *_rounding(record))


def passes(record: Record) -> list[str]:
    """That the stream holds every image more than once, in words; else empty."""
    repeats = record.cell["cell"]["scenario"].get("repeats", 1)
    return [f"{repeats} passes over the same images"] if repeats != 1 else []


def _data(record: Record) -> list[str]:
    cell, found = record.cell["cell"], []
    if record.cell["subset"]:
        limit = cell["scenario"].get("limit")
        found.append(f"a subset: at most {f'{limit:,}' if isinstance(limit, int) else limit} samples of a domain")
    if cell["dataset"]["name"] == "imagenet_c" and record.part("data", "drawn"):
        found.append("corrupted on the fly from ImageNet images, not the published files")
    return found


def _weights(record: Record) -> list[str]:
    model = record.cell["cell"]["model"]
    source, weights = model.get("source"), model.get("weights")
    if isinstance(source, dict):
        return [f"the source model saw at most {source['limit']} samples"] if source.get("limit") else []
    if weights is None:
        return ["random weights: the model was never trained"]
    if weights != "pretrained":
        return [f"other weights than the published ones (a file, sha256 {record.part('model', 'weights_hash')})"]
    return []


def _stream(record: Record) -> list[str]:
    scenario = record.cell["cell"]["scenario"]
    return passes(record) + [f"{key} {value} in the stream" for key, value in sorted(scenario.items()) if key not in STREAM]


def _collapse(record: Record) -> list[str]:
    return [COLLAPSED] if record.summary["collapsing"] else []


def _rounding(record: Record) -> list[str]:
    decimals = record.part("compacted", "decimals")
    return [f"{ROUNDED} {decimals} decimals: confidence, entropy, drops and weights"] if decimals is not None else []
