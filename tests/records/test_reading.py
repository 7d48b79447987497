"""Reading records from folders and packed files: where they are found, and their names in notes."""

import pytest

from dualtta.records.packing import pack
from dualtta.records.reading import find_results, read, read_all


def test_paths_without_records_are_refused_with_the_way_out(tmp_path):
    with pytest.raises(ValueError, match=r"there is no folder .*: name one that `dualtta run` wrote"):
        find_results(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds no records: name a folder with cells in it"):
        find_results(tmp_path)


def test_a_results_folder_is_itself_and_a_folder_above_holds_several(undisturbed, tmp_path):
    (tmp_path / "above").mkdir()
    (tmp_path / "above" / "one").symlink_to(undisturbed)
    pack(undisturbed, tmp_path / "above" / "two.parquet")
    (tmp_path / "above" / "note.txt").write_text("not a record")
    assert find_results(undisturbed) == [undisturbed]
    assert [path.name for path in find_results(tmp_path / "above")] == ["one", "two.parquet"]
    records, notes = read_all(tmp_path / "above")
    assert len(records) == 12
    assert not notes


def test_records_of_folders_and_files_have_a_name_and_an_origin(undisturbed, tmp_path):
    pack(undisturbed, tmp_path / "grid.parquet")
    record, packed = read_all(undisturbed)[0][0], read_all(tmp_path / "grid.parquet")[0][0]
    assert record.folder == undisturbed / "cells" / record.key
    assert record.name == f"{undisturbed.name}/cells/{record.key}"
    assert (packed.origin, packed.name, packed.group) == (tmp_path / "grid.parquet", f"grid.parquet/{record.key}", "grid")
    with pytest.raises(ValueError, match="it has no folder"):
        _ = packed.folder
    assert read(record.folder).cell == record.cell


def test_a_part_of_the_settings_that_is_not_there_is_none(undisturbed):
    record = read_all(undisturbed)[0][0]
    assert record.part("cell", "dataset", "name") == "colored_digits"
    assert record.part("cell", "dataset", "name", "further") is None
    assert record.part("nothing", "at", "all") is None
