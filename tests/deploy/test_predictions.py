"""The CSV file of predictions."""

import pytest

from dualtta.deploy.predictions import Predictions


def test_rows_are_written_all_or_none(tmp_path, monkeypatch, rows_of):
    table = Predictions.create(tmp_path / "p.csv")
    table.append([["a", 1, "", 0.5, 0.1, 0, 0, ""]])
    before = (tmp_path / "p.csv").read_bytes()
    inner = table._file

    class Full:
        def __getattr__(self, name):
            return getattr(inner, name)

        def write(self, data):
            if len(data) > 10:
                return inner.write(data[:10])
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(table, "_file", Full())
    with pytest.raises(OSError, match=r"No space left on device: .*p\.csv"):
        table.append([["b" * 15, *[""] * 7]])
    assert (tmp_path / "p.csv").read_bytes() == before
    monkeypatch.setattr(table, "_file", inner)
    table.append([["c\nd", *[""] * 7], ["\udce9.png", *[""] * 7]])
    table.close()
    assert [row["path"] for row in rows_of(tmp_path / "p.csv")] == ["a", "c\nd", "\\udce9.png"]
