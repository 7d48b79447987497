"""`python -m studies study`: tables of variants on the same cells."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dualtta.bench.benchmarks import Options, Setup
from dualtta.train import make_source
from studies.commands import main


def test_source_models_of_other_seeds_are_studied_apart(tmp_path, capsys, make_rows, write_record):
    for seed, accuracy in ((0, 0.5), (1, 0.8)):
        source = make_source("colored_mnist", seed=seed)
        setup = Setup("colored_mnist", 2, "resnet18", {"split": "test"}, {}, source)
        write_record(tmp_path, setup.cells(["source"], Options(seeds=(1,)))[0], make_rows(accuracy, 400))
    assert main(["study", str(tmp_path), "--json"]) == 0
    found = {study["title"]: study["lines"][0]["accuracy"] for study in json.loads(capsys.readouterr().out)}
    assert found == {
        "colored_mnist, resnet18, mild, batches of 64": pytest.approx(0.5),
        "colored_mnist, resnet18, mild, batches of 64, source model of seed 1": pytest.approx(0.8),
    }


@pytest.fixture(scope="session")
def two_passes(make_rows, write_record):
    return partial(_two_passes, make_rows, write_record)


def _two_passes(make_rows, write_record, out: Path, method: str, first: float, last: float, **settings) -> None:
    setup = Setup("imagenet_c", 1000, "resnet50_v1", {"corruptions": ["contrast"], "severities": [5]}, {"repeats": 2})
    cell = setup.cells([method], Options(seeds=(1,)), **settings)[0]
    rows = make_rows(0.5, 200, seed=0)
    at = np.arange(200) % 100
    right = at < np.where(np.arange(200) < 100, 100 * first, 100 * last)
    rows |= {"index": at, "label": rows["label"][at], "plus": at < 20, "minus": at >= 90}
    write_record(out, cell, {**rows, "prediction": np.where(right, rows["label"], 1 - rows["label"])})


def test_a_study_shows_passes_differences_and_what_was_right(tmp_path, capsys, two_passes):
    two_passes(tmp_path, "source", 0.5, 0.5)
    two_passes(tmp_path, "dual_variant", 0.6, 0.1, breaks_by="flip")
    assert main(["study", str(tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["title"] == "imagenet_c, resnet50_v1, mild, batches of 64, 2 passes over the same images"
    source, variant = found["lines"]
    assert source["label"] == "No adapt"
    assert source["difference"] is None
    assert variant["label"] == "dual_variant, breaks_by flip"
    assert (variant["first"], variant["last"], variant["accuracy"]) == pytest.approx((0.6, 0.1, 0.35))
    assert variant["difference"][0] == pytest.approx(-15)
    assert (variant["plus"], variant["minus"]) == pytest.approx((0.2, 0.1))
    assert (variant["plus_right"], variant["minus_right"]) == pytest.approx((0.75, 0.0))  # 20 and 10 of 40; none of 20
    assert main(["study", str(tmp_path), "--markdown"]) == 0
    assert "| dual_variant, breaks_by flip | 35.0 | 60.0 | 10.0 | -15.0 (" in capsys.readouterr().out


def test_a_study_shows_how_a_stream_of_one_pass_begins_and_ends(tmp_path, capsys, make_rows, write_record):
    rows, at = make_rows(0.5, 80), np.arange(80)
    right = (at < 10) | (at % 2 == 0) & (at < 70)  # the first ten, half of the middle, none of the last ten
    rows |= {"prediction": np.where(right, rows["label"], 1 - rows["label"])}
    setup = Setup("imagenet_c", 1000, "resnet50_v1", {"corruptions": ["fog"], "severities": [5]}, {})
    write_record(tmp_path, setup.cells(["tent"], Options(seeds=(1,)))[0], rows)
    assert main(["study", str(tmp_path), "--json"]) == 0
    ((line,),) = (study["lines"] for study in json.loads(capsys.readouterr().out))
    assert (line["first"], line["last"], line["accuracy"]) == pytest.approx((1.0, 0.0, 0.5))


def test_a_study_takes_the_cells_that_all_variants_have(tmp_path, capsys, write_run, two_passes):
    two_passes(tmp_path, "source", 0.5, 0.5)
    write_run(tmp_path, "tent", 0.9, "fog")
    assert main(["study", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [len(one["lines"]) for one in found] == [1, 1]  # two passes and one are two tables
    write_run(tmp_path, "source", 0.4, "snow")
    assert main(["study", str(tmp_path), "--json"]) == 0
    assert 0 in [one["cells"] for one in json.loads(capsys.readouterr().out)]
