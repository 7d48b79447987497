"""What limits a recorded number: a part of the data, other weights than the published ones, a collapse, a run of resets."""

from dualtta.records.reading import Record

STREAM = ("name", "domains", "limit", "batch_size", "repeats", "before")  # of a scenario; any other setting is a caveat
COLLAPSED = "predictions collapsed onto few classes"
RESET = "reset to the source weights in more than a tenth of its steps"
SKIPPED = "more than a tenth of its steps were skipped: not finite"
UNUSED = "adapted on fewer than 1 % of the samples"
HARDLY_LEARNED = (RESET, SKIPPED, UNUSED)
IN_THE_RUN = (COLLAPSED, *HARDLY_LEARNED)  # what happened, rather than how it was set up
OFTEN, FEW = 0.1, 0.01
ROUNDED = "stored to"  # how the caveat of a compacted record begins


def caveats(record: Record) -> tuple[str, ...]:
    """The caveats of one cell, in words."""
    return (*_data(record), *_weights(record), *_stream(record), *_run(record), *_rounding(record))


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


def _run(record: Record) -> list[str]:
    summary = record.summary
    often = OFTEN * (summary["updates"] + summary["skips"])
    happened = {
        COLLAPSED: summary["collapsing"] > 0,
        RESET: summary["recoveries"] > often,
        SKIPPED: summary["skips"] > often,
        UNUSED: summary["adapt"] < FEW and _learns(record),
    }
    return [text for text, so in happened.items() if so]


def _learns(record: Record) -> bool:
    """Whether the method ever updates parameters; without `method_about` a chosen learning rate says so."""
    recorded = record.part("method_about", "learns")
    return bool(recorded) if recorded is not None else "lr" in record.cell["cell"]["method"] or record.summary["updates"] > 0


def _rounding(record: Record) -> list[str]:
    decimals = record.part("compacted", "decimals")
    return [f"{ROUNDED} {decimals} decimals: confidence, entropy, drops and weights"] if decimals is not None else []
