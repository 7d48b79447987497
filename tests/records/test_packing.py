"""Packed records: one Parquet file that reads like the folder it was made from."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dualtta.bench.benchmarks import Options, Setup
from dualtta.cli import main
from dualtta.records import packed
from dualtta.records.format import COLUMNS
from dualtta.records.packing import pack, round_column
from dualtta.records.reading import find_results, read_all
from dualtta.records.verification import read_verified, verify


@pytest.fixture
def folder(tmp_path, baselines, write_run) -> Path:
    baselines(tmp_path / "whole")
    write_run(tmp_path / "whole", "dualtta", 0.55, lam=0.5)
    return tmp_path / "whole"


def same(one, other) -> bool:
    """Bit for bit, NaN included; the place alone may differ."""
    rows, others = one.rows(), other.rows()
    texts = (one.key, one.cell, one.summary, one.cost) == (other.key, other.cell, other.summary, other.cost)
    return texts and all(
        rows[name].dtype == others[name].dtype and rows[name].tobytes() == others[name].tobytes() for name in COLUMNS
    )


def test_packed_records_pass_verification_and_their_accuracies_are_exact(folder, tmp_path):
    made = pack(folder, tmp_path / "small.parquet")
    assert (made.written, made.notes) == (18, ())
    assert made.size == (tmp_path / "small.parquet").stat().st_size
    whole, notes = read_verified([folder])
    small, more_notes = read_verified([tmp_path / "small.parquet"])
    assert not notes + more_notes
    assert [record.key for record in small] == [record.key for record in whole]
    for record, other in zip(whole, small, strict=True):
        for key in ("samples", "accuracy", "domains", "plus", "minus", "adapt", "corr_adapt"):
            assert other.summary[key] == record.summary[key]
        assert other.summary["mean_entropy"] == pytest.approx(record.summary["mean_entropy"], abs=1e-3)
        before = other.cell["compacted"]["before"]
        assert before["mean_entropy"] == record.summary["mean_entropy"]
        assert set(before) == {key for key in record.summary if other.summary[key] != record.summary[key]}
        rows, exact = other.rows(), record.rows()
        for name in ("index", "label", "prediction", "domain", "group", "segment", "batch", "plus", "minus"):
            assert np.array_equal(rows[name], exact[name])
            assert rows[name].dtype == exact[name].dtype
        assert np.abs(rows["confidence"] - exact["confidence"]).max() <= 0.0051


def test_packing_what_was_rounded_before_changes_nothing(folder, tmp_path):
    pack(folder, tmp_path / "first.parquet", decimals=1)
    pack(tmp_path / "first.parquet", tmp_path / "second.parquet", decimals=3)
    first, second = (read_all(tmp_path / f"{name}.parquet")[0] for name in ("first", "second"))
    assert len(first) == len(second) == 18
    for one, other in zip(first, second, strict=True):
        assert same(one, other)
        assert other.cell["compacted"]["decimals"] == 1


def test_fewer_decimals_keep_what_the_numbers_first_were(folder, tmp_path):
    pack(folder, tmp_path / "small.parquet")
    pack(tmp_path / "small.parquet", tmp_path / "smaller.parquet", decimals=1)
    whole, smaller = read_all(folder)[0], read_verified([tmp_path / "smaller.parquet"])[0]
    for record, other in zip(whole, smaller, strict=True):
        assert other.summary["accuracy"] == record.summary["accuracy"]
        assert other.cell["compacted"]["decimals"] == 1
        assert other.cell["compacted"]["before"]["mean_entropy"] == record.summary["mean_entropy"]
    for wrong in (0, 7):
        with pytest.raises(ValueError, match="decimals must be from 1 to 6"):
            pack(folder, tmp_path / "none.parquet", decimals=wrong)


def test_samples_that_were_not_evaluated_stay_nan_and_infinite_weights_stay_infinite(tmp_path, make_rows, write_record):
    cell = Setup("imagenet_c", 1000, "resnet50_v1", {"corruptions": ["fog"]}, {}).cells(["tent"], Options(seeds=(1,)))[0]
    rows = make_rows(0.5, 100)
    rows["drop_alter"][::2] = np.nan
    rows["weight"][:2] = np.inf, 1e30
    write_record(tmp_path / "run", cell, rows)
    pack(tmp_path / "run", tmp_path / "run.parquet")
    ((record,), _) = read_verified([tmp_path / "run.parquet"])
    found = record.rows()
    assert np.array_equal(np.isnan(found["drop_alter"]), np.arange(100) % 2 == 0)
    assert found["weight"][0] == np.inf
    assert found["weight"][1] == np.float32(1e30)


def test_the_file_says_what_it_holds_and_any_reader_of_parquet_reads_it(folder, tmp_path):
    pack(folder, tmp_path / "small.parquet", decimals=3)
    about = packed.about_file(tmp_path / "small.parquet")
    assert about["decimals"] == 3
    assert about["rounded"] == ["confidence", "entropy", "drop_alter", "drop_preserve", "weight"]
    assert about["folders"] == ["whole"]
    table = pq.read_table(tmp_path / "small.parquet", columns=["key", "summary", "prediction"])
    assert table.num_rows == 18
    assert len(table["prediction"][0].as_py()) == json.loads(table["summary"][0].as_py())["samples"]


def test_row_groups_hold_a_bounded_number_of_samples(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "GROUP", 2500)  # two cells of 1,000
    pack(folder, tmp_path / "small.parquet")
    assert pq.ParquetFile(tmp_path / "small.parquet").num_row_groups == 9
    pack(folder, tmp_path / "large.parquet")
    small, large = (read_verified([tmp_path / f"{name}.parquet"])[0] for name in ("small", "large"))
    assert all(same(one, other) for one, other in zip(small, large, strict=True))


def test_summaries_are_read_without_decoding_samples(folder, tmp_path, monkeypatch):
    pack(folder, tmp_path / "small.parquet")
    monkeypatch.setattr(packed, "_column", lambda *which: pytest.fail("a per-sample column was decoded"))
    assert len(read_all(tmp_path / "small.parquet")[0]) == 18


def test_one_column_is_read_alone_from_a_file_and_from_a_folder(folder, tmp_path):
    pack(folder, tmp_path / "small.parquet")
    for path in (folder, tmp_path / "small.parquet"):
        record = read_all(path)[0][0]
        assert set(record.rows("label", "prediction")) == {"label", "prediction"}
        with pytest.raises(KeyError):
            record.rows("nothing")


def test_several_folders_go_into_one_file_and_come_back_apart(tmp_path, write_run):
    write_run(tmp_path / "all" / "one", "tent", 0.5, seeds=(1,))
    write_run(tmp_path / "all" / "two", "tent", 0.6, seeds=(1,))  # another result of the same cell
    made = pack(tmp_path / "all", tmp_path / "all.parquet")
    assert (made.written, made.notes) == (2, ())
    one, two = read_verified([tmp_path / "all.parquet"])[0]
    assert (one.group, two.group) == ("one", "two")
    assert one.key == two.key
    assert one.origin != two.origin
    again = pack(tmp_path / "all.parquet", tmp_path / "again.parquet")
    assert again.written == 2


def test_a_folder_may_hold_folders_and_packed_files(folder, tmp_path, write_run):
    write_run(tmp_path / "other", "tent", 0.5, "snow")
    pack(tmp_path / "other", tmp_path / "a.parquet")
    shutil.rmtree(tmp_path / "other")
    assert [path.name for path in find_results(tmp_path)] == ["a.parquet", "whole"]
    assert len(read_all(tmp_path)[0]) == 20


def test_records_that_fail_verification_are_left_out(folder, tmp_path, capsys):
    broken = next((folder / "cells").iterdir())
    summary = json.loads((broken / "summary.json").read_text())
    (broken / "summary.json").write_text(json.dumps({**summary, "accuracy": 0.99}))
    assert main(["pack", str(folder), str(tmp_path / "small.parquet")]) == 1
    printed = capsys.readouterr()
    assert "17 records written" in printed.out
    assert f"{broken.name} is left out: accuracy in summary.json" in printed.err


def test_a_changed_summary_in_a_packed_file_is_found(folder, tmp_path):
    pack(folder, tmp_path / "small.parquet")
    table = pq.read_table(tmp_path / "small.parquet")
    summaries = [text.replace('"accuracy": 0.', '"accuracy": 0.9') for text in table["summary"].to_pylist()]
    table = table.set_column(table.schema.get_field_index("summary"), "summary", [summaries])
    pq.write_table(table, tmp_path / "changed.parquet")
    found, notes = read_verified([tmp_path / "changed.parquet"])
    assert not found
    assert len(notes) == 18
    assert "accuracy in summary.json does not follow from changed.parquet" in notes[0]


def test_a_damaged_file_is_noted_or_refused_in_one_line(folder, tmp_path, capsys):
    pack(folder, tmp_path / "small.parquet")
    data = (tmp_path / "small.parquet").read_bytes()
    at = pq.ParquetFile(tmp_path / "small.parquet").metadata.row_group(0).column(7).data_page_offset + 40
    (tmp_path / "damaged.parquet").write_bytes(data[:at] + bytes(b ^ 255 for b in data[at : at + 8]) + data[at + 8 :])
    found, notes = read_verified([tmp_path / "damaged.parquet"])
    assert not found
    assert all("damaged.parquet cannot be read" in note for note in notes)
    (tmp_path / "cut.parquet").write_bytes(data[: len(data) // 2])
    (tmp_path / "other.parquet").write_bytes(b"none")
    pq.write_table(pq.read_table(tmp_path / "small.parquet").replace_schema_metadata({}), tmp_path / "foreign.parquet")
    for name, message in (("cut", "no Parquet file"), ("other", "no Parquet file"), ("foreign", "holds no records")):
        assert main(["report", str(tmp_path / f"{name}.parquet"), "--out", str(tmp_path / "report")]) == 2
        assert message in capsys.readouterr().err


def _written(table, path: Path, about: bytes | None = None) -> Path:
    pq.write_table(table.replace_schema_metadata({packed.METADATA: about} if about else table.schema.metadata), path)
    return path


def test_a_file_of_another_layout_is_refused_in_one_line(folder, tmp_path, capsys):
    pack(folder, tmp_path / "small.parquet")
    table, path = pq.read_table(tmp_path / "small.parquet"), tmp_path / "other.parquet"
    label = table.schema.get_field_index("label")
    others = [(table, about) for about in (b"[1]", b"{", b"\xff", b'{"version": 1, "folders": 5}')]
    others += [(table.drop_columns([name]), None) for name in ("key", "folder", "label")]
    others += [(table.set_column(label, "label", table.column("key")), None)]
    for other, about in others:
        assert main(["results", str(_written(other, path, about))]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"{path} is damaged" in said
    large = table.set_column(label, "label", table.column("label").cast(pa.large_list(pa.int64())))
    assert len(read_verified([_written(large, path)])[0]) == len(table)  # as other programs may write it


def test_only_a_packed_file_is_replaced(folder, tmp_path, capsys):
    pack(folder, tmp_path / "small.parquet")
    pack(folder, tmp_path / "small.parquet", decimals=1)
    assert packed.about_file(tmp_path / "small.parquet")["decimals"] == 1
    (tmp_path / "mine.parquet").write_text("mine")
    for target, message in (
        (tmp_path / "mine.parquet", "is no packed file: it is not replaced"),
        (tmp_path / "small.json", "must end in .parquet"),
        (tmp_path / "no" / "small.parquet", "cannot be written"),
    ):
        assert main(["pack", str(folder), str(target)]) == 2
        assert message in capsys.readouterr().err
    assert (tmp_path / "mine.parquet").read_text() == "mine"
    assert main(["pack", str(tmp_path / "nothing"), str(tmp_path / "x.parquet")]) == 2
    assert not (tmp_path / "x.parquet").exists()


def test_a_file_that_is_replaced_while_it_is_read_is_noticed(folder, tmp_path):
    pack(folder, tmp_path / "small.parquet")
    record = read_all(tmp_path / "small.parquet")[0][0]
    pack(folder, tmp_path / "small.parquet", decimals=1)
    assert "has changed since it was opened" in str(verify(record))


def test_an_interrupted_pack_leaves_nothing(folder, tmp_path, monkeypatch):
    def interrupt(*which):
        raise KeyboardInterrupt

    monkeypatch.setattr(packed, "_table", interrupt)
    before = sorted(tmp_path.iterdir())
    assert main(["pack", str(folder), str(tmp_path / "small.parquet")]) == 130
    assert sorted(tmp_path.iterdir()) == before


def test_the_commands_read_a_packed_file_like_the_folder(folder, tmp_path, capsys):
    pack(folder, tmp_path / "small.parquet", decimals=6)
    for command in (
        ["results", "{}"],
        ["compare", "{}:eata", "{}:tent"],
        ["compare", "{}:dualtta,lam=0.5", "{}:deyo"],
    ):
        shown = []
        for path in (folder, tmp_path / "small.parquet"):
            assert main([word.format(path) for word in command]) == 0
            shown.append(capsys.readouterr().out.replace(str(path), "PATH"))
        assert shown[0] == shown[1]


BLOCK = """
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
class Blocked:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name.partition(".")[0] in {blocked!r} else None
    def create_module(self, spec):
        raise ImportError(f"{{spec.name}} is blocked")
    def exec_module(self, module):
        pass
sys.meta_path.insert(0, Blocked())
"""


def run_blocked(blocked: tuple[str, ...], code: str) -> str:
    command = [sys.executable, "-c", BLOCK.format(blocked=blocked) + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_records_are_read_verified_and_packed_without_torch(folder, tmp_path):
    code = f"""
from dualtta.records.packing import pack
from dualtta.records.verification import read_verified
pack(Path({str(folder)!r}), Path({str(tmp_path / "small.parquet")!r}))
for path in ({str(folder)!r}, {str(tmp_path / "small.parquet")!r}):
    records, notes = read_verified([Path(path)])
    print(len(records), len(notes), len(records[0].rows()))
"""
    assert run_blocked(("torch", "torchvision", "timm"), code) == "18 0 14\n18 0 14\n"


@pytest.mark.slow
def test_a_grid_runs_without_pandas_and_pyarrow(tmp_path):
    code = f"""
from dualtta.cli import main
sys.exit(main(["run", "debug", "--seeds", "1", "--out", {str(tmp_path)!r}, "--json"]))
"""
    made = json.loads(run_blocked(("pandas", "pyarrow"), code))
    assert (made["computed"], made["failed"]) == (3, {})


def test_columns_keep_their_types():
    for name, kind in COLUMNS.items():
        assert round_column(name, np.array([0, 1]), 2).dtype == kind
    assert round_column("index", np.array([0, 2**40]), 1)[1] == 2**40
    assert np.isnan(round_column("drop_alter", np.array([np.nan], np.float32), 1)).all()
