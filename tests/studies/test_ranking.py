"""`python -m studies study --rank`: the order of variants."""

import json
from functools import partial

import numpy as np
import pytest

from dualtta.bench.benchmarks import Options, Setup
from dualtta.report import read_results
from studies.commands import main
from studies.ranking import ranking

SAFE = "dualtta_safe"


@pytest.fixture(scope="session")
def write(make_rows, write_record):
    return partial(_write, make_rows, write_record)


def _write(make_rows, write_record, out, method, right, corruption="contrast", scenario="mild", **settings):
    """One record; `right` says which of 1,600 samples are."""
    setup = Setup("imagenet_c", 1000, "resnet50_v1", {"corruptions": [corruption], "severities": [5]}, {}, scenario=scenario)
    (cell,) = setup.cells([method], Options(seeds=(2024,)), **settings)
    rows = make_rows(0.5, 1600)
    write_record(out, cell, {**rows, "prediction": np.where(right, rows["label"], 1 - rows["label"])})


def first(share):
    """That share of every eighth of the stream."""
    return np.arange(1600) % 200 < round(200 * share)


@pytest.fixture
def records(tmp_path, write):
    """Two benchmarks. The sum gains most and falls below batch statistics at the end of one stream; the mean gains a little."""
    for scenario in ("mild", "imbalanced"):
        write(tmp_path, "source", first(0.4), scenario=scenario)
        write(tmp_path, "norm", first(0.5), scenario=scenario)
        write(tmp_path, "norm", first(0.9), scenario=scenario, statistics=0.3)  # no floor: it is a variant itself
        write(tmp_path, SAFE, first(0.55), scenario=scenario)
        write(tmp_path, SAFE, first(0.57), scenario=scenario, reduction="mean")
        falls = first(0.8) & (np.arange(1600) < 1400 if scenario == "mild" else True)
        write(tmp_path, SAFE, falls, scenario=scenario, reduction="sum")
    return tmp_path


def test_a_harmless_variant_comes_before_one_that_gains_more(records):
    ranks = ranking(read_results([records])[0], SAFE)
    assert [rank.settings for rank in ranks] == [{"reduction": "mean"}, {}, {"reduction": "sum"}]
    assert [len(rank.harmed) for rank in ranks] == [0, 0, 1]
    assert "mild" in ranks[2].harmed[0]
    assert [round(rank.gain, 6) for rank in ranks] == [2.0, 0.0, 20.0]  # the mean of +15 and +25
    assert {round(gain, 6) for gain in ranks[2].gains.values()} == {15.0, 25.0}
    assert {rank.cells for rank in ranks} == {2}


def test_only_cells_that_all_have_count(records, write):
    write(records, SAFE, first(0.0), corruption="pixelate", reduction="mean")
    assert {rank.cells for rank in ranking(read_results([records])[0], SAFE)} == {2}


def test_benchmarks_weigh_the_same_however_many_cells_they_have(records, write):
    for method, share, settings in (
        ("source", 0.4, {}),
        ("norm", 0.5, {}),
        ("norm", 0.9, {"statistics": 0.3}),
        (SAFE, 0.55, {}),
        (SAFE, 0.61, {"reduction": "mean"}),
        (SAFE, 0.55, {"reduction": "sum"}),
    ):
        write(records, method, first(share), corruption="pixelate", **settings)
    mean = ranking(read_results([records])[0], SAFE)[0]
    assert mean.gain == pytest.approx((2.0 + (2.0 + 6.0) / 2) / 2)


def test_the_table_and_its_json(records, capsys):
    assert main(["study", str(records), "--rank", SAFE]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "harmed, of 2" in lines[0]
    assert "reduction mean" in lines[1]
    assert main(["study", str(records), "--rank", SAFE, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("| variant | harmed, of 2 | gain |")
    assert main(["study", str(records), "--rank", SAFE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["gain"] == pytest.approx(2.0)


def test_nothing_is_chosen_on_what_is_held_out(records, write):
    for method, share, settings in (("source", 0.4, {}), ("norm", 0.5, {}), (SAFE, 0.5, {}), (SAFE, 0.9, {"reduction": "sum"})):
        write(records, method, first(share), corruption="fog", **settings)
    write(records, SAFE, first(0.1), corruption="fog", reduction="mean")
    assert {rank.cells for rank in ranking(read_results([records])[0], SAFE)} == {2}


@pytest.mark.parametrize(
    ("method", "says"), [("dualtta_saef", "did you mean 'dualtta_safe'?"), ("norm", "norm is the reference of the ranking")]
)
def test_what_cannot_be_ranked_is_said(records, method, says, capsys):
    assert main(["study", str(records), "--rank", method]) == 2
    assert says in capsys.readouterr().err


def test_what_there_is_nothing_to_compare_with_is_said(records, tmp_path, capsys, write):
    assert main(["study", str(records), "--rank", "tent"]) == 2
    assert "there is no record of tent at its own settings" in capsys.readouterr().err
    write(tmp_path / "lone", SAFE, first(0.5))
    assert main(["study", str(tmp_path / "lone"), "--rank", SAFE]) == 2
    assert "no record of source, norm" in capsys.readouterr().err
