"""Where a record comes from."""

from pathlib import Path

from dualtta.bench import provenance


def test_a_changed_source_tree_is_marked_in_the_record(monkeypatch):
    said = {"rev-parse": f"{Path(provenance.__file__).parents[2]}\nf00d", "status": ""}
    monkeypatch.setattr(provenance, "_git", lambda home, *words: said[words[0]])
    assert provenance.commit() == "f00d"
    said["status"] = " M dualtta/bench/cell.py"
    assert provenance.commit() == "f00d+"
    said["rev-parse"] = "/elsewhere\nf00d"
    assert provenance.commit() is None
