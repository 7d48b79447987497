"""Records computed with other defaults than their method has now are named after a run."""

import json

import pytest

from dualtta.cli import main
from dualtta.methods import changed_defaults
from dualtta.methods.dualtta_safe import DualTTASafe


def about(method, asked=None, **was):
    return {"cell": {"method": {"name": method, **(asked or {})}}, "method": {"name": method, **was}}


@pytest.mark.parametrize(
    ("record", "found"),
    [
        (about("dualtta_safe", crowd=1.3, steady=0.03, guard=True), {}),
        (about("dualtta_safe", crowd=1.3, steady=0.03), {"guard": (False, True)}),  # earlier versions had none
        (about("dualtta_safe", **DualTTASafe.retired), {}),  # of an earlier version
        (about("dualtta_safe", crowd=1.2, steady=0.03, guard=True), {"crowd": (1.2, 1.3)}),
        (about("dualtta_safe", {"crowd": 1.2}, crowd=1.2), {}),  # it was chosen
        (about("dualtta_safe", statistics="batch"), {"statistics": ("batch", 0.3)}),
        (about("dualtta_safe", {"statistics": "batch"}, statistics="batch"), {}),
        (about("dualtta", {"layer": "layer2"}, preserve={"view": "style", "layer": "layer2"}), {}),
        (about("tent", lr=1.0), {}),  # by the model, not by the method
        (about("of_a_plugin_that_is_gone", crowd=1.0), {}),
    ],
)
def test_only_defaults_that_changed_are_found(record, found):
    assert changed_defaults(record) == found


def test_a_run_over_older_records_names_them_and_keeps_them(tmp_path, capsys):
    words = ["run", "debug", "--methods", "dualtta", "--out", str(tmp_path)]
    assert main(words) == 0
    assert "other defaults" not in capsys.readouterr().err
    cells = sorted(tmp_path.glob("cells/*/cell.json"))
    record = json.loads(cells[0].read_text())
    record["method"]["tau_sp"] = 0.5
    cells[0].write_text(json.dumps(record))
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "0 cells computed" in printed.out
    found = "1 existing records of dualtta have other defaults (tau_sp 0.5, now 0.7): compute them again with another --out"
    assert f"dualtta: {found}" in printed.err.splitlines()
    assert json.loads(cells[0].read_text()) == record


def test_records_with_settings_that_the_method_no_longer_has_are_kept(tmp_path, capsys):
    words = ["run", "debug", "--methods", "dualtta_safe", "--seeds", "1", "--limit", "64", "--out", str(tmp_path)]
    assert main(words) == 0
    (cell,) = tmp_path.glob("cells/*/cell.json")
    record = json.loads(cell.read_text())
    record["method"] |= DualTTASafe.retired
    cell.write_text(json.dumps(record))
    capsys.readouterr()
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "0 cells computed, 1 were there already" in printed.out
    assert not printed.err
    assert json.loads(cell.read_text()) == record
