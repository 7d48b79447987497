"""Records as a DataFrame: a row a cell, filtered frames that stay one, per-sample columns, and no torch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dualtta
from dualtta.records import Records, load_records

RECORDS = Path(__file__).parents[1] / "recorded"
DEMO, UNWELL = RECORDS / "demo", RECORDS / "unwell"


@pytest.fixture(scope="module")
def frame():
    return load_records(DEMO)


def test_a_row_is_a_cell_with_its_settings_metrics_and_provenance(frame):
    assert dualtta.load_records is load_records
    assert len(frame) == 26
    assert set(frame.stage) == {"result", "tuning"}
    row = next(frame.query("dataset == 'colored_digits' and method == 'dualtta' and seed == 2024").itertuples())
    cell, summary = row.record.cell, row.record.summary
    assert (row.key, row.path) == (row.record.key, DEMO)
    assert row.settings == {key: value for key, value in cell["cell"]["method"].items() if key != "name"}
    assert (row.lr, row.hyperparameters["tau_sa"]) == (cell["method"]["lr"], cell["method"]["tau_sa"])
    assert (row.accuracy, row.worst_group, row.samples) == (summary["accuracy"], summary["worst_group"], 240)
    assert (row.plus_share, row.minus_correct) == (summary["plus"]["share"], summary["minus"]["correct"])
    assert row.domain_accuracy == summary["domains"]
    assert (row.seconds, row.device) == (row.record.cost["seconds"], "cpu")
    assert row.versions["torch"]
    assert row.caveats == ("a subset: at most 240 samples of a domain",)
    assert row.subset


def test_numbers_are_numbers_and_group(frame):
    found = frame[frame.stage == "result"].groupby(["dataset", "method"]).accuracy.agg(["mean", "count"])
    each = frame.query("dataset == 'digits_c' and method == 'tent' and stage == 'result'").record
    assert found.loc[("digits_c", "tent"), "mean"] == pytest.approx(np.mean([one.summary["accuracy"] for one in each]))
    assert (found["count"] == 3).all()
    assert frame.select_dtypes("number").shape[1] > 25


def test_a_filtered_frame_is_still_one_and_keeps_its_notes():
    frame = load_records([DEMO, UNWELL])
    some = frame[frame.method == "tent"].sort_values("seed").reset_index(drop=True)
    assert isinstance(some, Records)
    assert some.notes == frame.notes
    assert len(frame.notes) == 3
    assert "it was not finished" in "; ".join(frame.notes)


def test_samples_are_one_long_table_beside_what_identifies_the_cell(frame):
    some = frame.query("dataset == 'colored_digits' and stage == 'result'")
    samples = some.samples()
    assert len(samples) == some["samples"].sum()
    means = samples.groupby(["method", "seed"], observed=True).correct.mean()
    for row in some.itertuples():
        assert means[row.method, row.seed] == pytest.approx(row.accuracy)
    assert set(samples.group) == set(some.groups.iloc[0])
    assert {"key", "model", "scenario", "prediction", "confidence", "drop_alter"} <= set(samples)


def test_samples_without_groups_and_of_no_cell(frame, tmp_path):
    assert frame.query("dataset == 'digits_c'").samples().group.isna().all()
    assert frame[frame.method == "nothing"].samples().empty
    (tmp_path / "cells").mkdir()
    assert load_records(tmp_path).empty


def test_samples_of_nothing_have_their_columns_and_need_those_of_the_cell(frame):
    assert not len(frame[frame.method == "none"].samples().query("not correct"))
    with pytest.raises(ValueError, match="needs the columns record"):
        frame.drop(columns="record").samples()


def test_a_record_whose_numbers_do_not_follow_from_its_rows_is_left_out(tmp_path):
    shutil.copytree(DEMO, tmp_path / "demo")
    broken = next((tmp_path / "demo" / "cells").iterdir())
    summary = json.loads((broken / "summary.json").read_text())
    (broken / "summary.json").write_text(json.dumps({**summary, "accuracy": 0.99}))
    frame = load_records(tmp_path)
    assert broken.name not in set(frame.key)
    (note,) = frame.notes
    assert note.startswith(f"demo/cells/{broken.name} is left out: accuracy in summary.json")


def test_records_are_read_without_torch_and_tables_are_made():
    code = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
import dualtta
from dualtta.report import read_results
from dualtta.report.tables import build_tables
frame = dualtta.load_records({str(DEMO)!r})
assert len(frame.samples()) > 1000
tables = {{table.name: table for table in build_tables(read_results([Path({str(DEMO)!r})])[0])}}
assert tables["results"].rows
assert not any(name == "torch" or name.startswith("torch.") for name, module in sys.modules.items() if module)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
