"""The packed form of records: one Parquet file, one row a cell.

    folder, key, cell, summary, done    strings; the last three are the JSON texts of the cell's folder
    index, label, ..., minus            lists, one value a sample: the columns of `format.COLUMNS`

Every tool that reads Parquet reads it. A row group holds about `GROUP` samples: reading and writing decode one at a time, and
reading summaries decodes no per-sample column. Cells that share a stream lie next to each other, so that zstd stores their
repeated indices and labels once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from dualtta.records.format import COLUMNS, to_json
from dualtta.records.metrics import Column
from dualtta.records.reading import Record, parse

if TYPE_CHECKING:
    import pyarrow as pa

Item = tuple[str, Record, Mapping[str, Column]]  # the name of its folder, a record, its columns

VERSION = 1  # of the file's layout
METADATA = b"dualtta.records"
TEXTS = ("folder", "key", "cell", "summary", "done")
GROUP = 2**20  # samples of a row group: about 50 MB decoded, one column at a time
LEVEL = 12  # of zstd
PAGE = 2**28  # bytes: one page for each column of a row group, so that zstd sees repetitions between cells


def schema(about: Mapping[str, Any]) -> "pa.Schema":
    """The file's schema; the same types in every file, so that files can be concatenated."""
    import pyarrow as pa

    fields = [pa.field(name, pa.string(), nullable=False) for name in TEXTS]
    fields += [pa.field(name, pa.list_(pa.from_numpy_dtype(kind)), nullable=False) for name, kind in COLUMNS.items()]
    return pa.schema(fields, {METADATA: to_json({"version": VERSION, **about}, indent=None)})


def write_records(file: BinaryIO, records: Iterable[Item], about: Mapping[str, Any]) -> None:
    """Write records in the given order; one row group in memory at a time."""
    import pyarrow.parquet as pq

    layout = schema(about)
    with pq.ParquetWriter(
        file,
        layout,
        compression="zstd",
        compression_level=LEVEL,
        data_page_size=PAGE,
        max_rows_per_page=2**20,
        dictionary_pagesize_limit=2**24,
        write_statistics=False,
        write_page_checksum=True,
    ) as writer:
        for part in _groups(records):
            writer.write_table(_table(part, layout), row_group_size=len(part))


def _groups(records: Iterable[Item]) -> Iterator[list[Item]]:
    part: list[Item] = []
    samples = 0
    for item in records:
        size = len(item[2]["index"])
        if part and samples + size > GROUP:
            yield part
            part, samples = [], 0
        part.append(item)
        samples += size
    if part:
        yield part


def _table(part: list[Item], layout: "pa.Schema") -> "pa.Table":
    import pyarrow as pa

    jsons = [[to_json(value, indent=None).decode() for value in (r.cell, r.summary, r.cost)] for _, r, _ in part]
    texts = [[folder for folder, _, _ in part], [record.key for _, record, _ in part], *zip(*jsons, strict=True)]
    arrays: list[Any] = [pa.array(list(column), pa.string()) for column in texts]
    offsets = pa.array(np.cumsum([0, *(len(rows["index"]) for _, _, rows in part)]), pa.int32())
    for name, kind in COLUMNS.items():
        values = np.concatenate([rows[name] for _, _, rows in part]).astype(kind)
        arrays.append(pa.ListArray.from_arrays(offsets, pa.array(values)))
    return pa.Table.from_arrays(arrays, schema=layout)


def about_file(path: Path) -> dict[str, Any]:
    """The metadata of a packed file. ValueError where it is none, or of another version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_schema(path)
    except pa.ArrowException as error:
        raise ValueError(f"{path} is no Parquet file: name one that `dualtta pack` wrote") from error
    if METADATA not in (found.metadata or {}):
        raise ValueError(f"{path} holds no records: name a Parquet file that `dualtta pack` wrote")
    try:
        about: Any = json.loads(found.metadata[METADATA])
    except (ValueError, RecursionError):
        about = None
    if not isinstance(about, dict) or not isinstance(about.get("folders"), list):
        raise ValueError(f"{path} is damaged: its metadata is not what `dualtta pack` writes")
    if about.get("version") != VERSION:
        raise ValueError(f"{path} has layout {about.get('version')}; this version of dualtta reads layout {VERSION}")
    wrong = [name for name in (*TEXTS, *COLUMNS) if name not in found.names or not _fits(name, found.field(name).type)]
    if wrong:
        raise ValueError(f"{path} is damaged: {', '.join(wrong)} is missing or of another type")
    return about


def _fits(name: str, kind: Any) -> bool:
    """Whether a column has its type, also as other programs write it: text, or lists of numbers."""
    from pyarrow import types

    if name in TEXTS:
        text = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(text) or types.is_large_string(text))
    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    number = kind.value_type
    return bool(types.is_integer(number) or types.is_floating(number) or types.is_boolean(number))


def read_file(path: Path) -> tuple[list[Record], list[str]]:
    """The records of a packed file, by folder and key, and a note for each one that cannot be read.

    ValueError where the file is no packed file. Only settings, summaries and costs are decoded.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    several = len(about_file(path).get("folders", ())) > 1
    found: list[tuple[str, str, Record | str]] = []
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, columns=list(TEXTS), use_threads=False).to_pylist()
                for number, row in enumerate(rows):
                    origin = path / row["folder"] if several else path
                    columns = partial(_read_columns, path, _stamp(path), group, number)
                    record: Record | str
                    try:
                        texts = parse(row["key"], [row["cell"], row["summary"], row["done"]])
                        record = Record(row["key"], *texts, origin, columns, packed=True, position=len(found))
                    except ValueError as error:
                        record = f"{path.name}/{error}"
                    found.append((row["folder"], row["key"], record))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read: {' '.join(str(error).split())}") from error
    found.sort(key=lambda item: item[:2])
    records = [record for *_, record in found if isinstance(record, Record)]
    return records, [note for *_, note in found if isinstance(note, str)]


def _stamp(path: Path) -> tuple[int, int]:
    """Changes when the file is replaced: what was decoded before is not used again."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _read_columns(path: Path, stamp: tuple[int, int], group: int, number: int, names: tuple[str, ...]) -> dict[str, Column]:
    if _stamp(path) != stamp:
        raise ValueError(f"{path} has changed since it was opened: read it again")
    found = {}
    for name in names or COLUMNS:
        if name not in COLUMNS:
            raise KeyError(name)
        lists = _column(path, stamp, group, name)
        begin, end = (int(lists.offsets[at].as_py()) for at in (number, number + 1))
        values = lists.values.slice(begin, end - begin).to_numpy(zero_copy_only=False)
        found[name] = np.array(values, COLUMNS[name])  # a copy that may be written to
    return found


@lru_cache(maxsize=2 * len(COLUMNS))
def _column(path: Path, stamp: tuple[int, int], group: int, name: str) -> Any:
    """One column of one row group, decoded. The last few are kept: neighbours are read together."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        return file.read_row_group(group, columns=[name], use_threads=False).column(0).combine_chunks()
