"""Zip and tar archives: checked completely before anything is written, and unpacked as plain files only."""

import bz2
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any

from dualtta.data.images import describe_failure

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
RATIO = 200  # images and idx files compress to a fifth at best; a higher ratio is an attempt to fill the disk
TOLERANCE = 64 * 2**20
MOST = 5_000_000  # files; ImageNet-C as a whole has 3,750,000
CHUNK = 2**20
PIECE = 2**24
JUNK = ("__MACOSX", ".DS_Store", "Thumbs.db")


class Refused(ValueError):
    """An archive that is not unpacked; the message says why."""


@dataclass(frozen=True)
class Entry:
    """A file of an archive: its path and its declared size. A link is unpacked as a copy of its target."""

    archive: Path
    path: PurePosixPath
    size: int
    info: Any
    link: PurePosixPath | None = None


def survey(archive: Path) -> list[Entry]:
    """Every file of an archive; Refused where one would be written outside the folder, is special, or is implausibly large."""
    with _reading(archive):
        entries: list[Entry] = []
        total, limit = 0, RATIO * archive.stat().st_size + TOLERANCE
        for entry in _zip_entries(archive) if _is_zip(archive) else _tar_entries(archive):
            total += entry.size
            if total > limit or len(entries) >= MOST:
                raise Refused(f"{archive} declares far more data than an archive of its size can hold: not unpacked")
            entries.append(entry)
    return [entry for entry in entries if not _is_junk(entry.path)]


def unpack(entries: Iterable[Entry], folder: Path) -> None:
    """Write the files of surveyed archives in the archives' order, then the copies for links."""
    links = []
    for archive, members in groupby(entries, lambda entry: entry.archive):
        with _reading(archive), _open(archive) as read:
            for entry in members:
                if entry.link is not None:
                    links.append(entry)
                    continue
                with read(entry.info) as source:
                    _write(source, folder / entry.path, entry.size)
    for entry in links:
        original = folder / str(entry.link)
        with original.open("rb") as source:
            _write(source, folder / entry.path, original.stat().st_size)


def safe_path(archive: Path, name: str) -> PurePosixPath:
    """The path of a member, relative to the folder it is unpacked to; Refused where it would be outside.

    >>> safe_path(Path("a.zip"), "./photo//dog/1.jpg")
    PurePosixPath('photo/dog/1.jpg')
    >>> safe_path(Path("a.zip"), "photo/../../1.jpg")
    Traceback (most recent call last):
    ...
    dualtta.data.verify.archives.Refused: a.zip would write outside its folder, to 'photo/../../1.jpg': not unpacked
    """
    path = PurePosixPath(name.replace("\\", "/"))  # some archives use Windows' separator
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name) or "\0" in name:
        raise Refused(f"{archive} would write outside its folder, to {name!r}: not unpacked")
    return path


def _zip_entries(archive: Path) -> Iterator[Entry]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            path = safe_path(archive, info.filename)
            kind = stat.S_IFMT(info.external_attr >> 16) if info.create_system == 3 else 0
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise Refused(f"{archive} holds a link or a device, {info.filename!r}: not unpacked")
            if info.flag_bits & 1:
                raise Refused(f"{archive} is encrypted: unpack it with its password, then use the folder")
            if not info.is_dir() and path.parts:
                yield Entry(archive, path, info.file_size, info)


def _tar_entries(archive: Path) -> Iterator[Entry]:
    files: set[PurePosixPath] = set()
    links: list[Entry] = []
    with _open_tar(archive) as file:
        for info in file:
            path = safe_path(archive, info.name)
            if info.issym() or info.islnk():
                base = path.parent if info.issym() else PurePosixPath()
                links.append(Entry(archive, path, 0, info, _link(archive, info, base)))
            elif info.isreg() and not info.issparse():
                files.add(path)
                yield Entry(archive, path, info.size, info)
            elif not info.isdir():
                raise Refused(f"{archive} holds a device or another special file, {info.name!r}: not unpacked")
        _check_end(file)
    for entry in links:
        if entry.link not in files:  # links to plain files only: no chains, no folders
            raise Refused(
                f"{archive} holds a link to a file outside, {entry.info.name!r} to {entry.info.linkname!r}: not unpacked"
            )
        yield entry


def _link(archive: Path, info: tarfile.TarInfo, base: PurePosixPath) -> PurePosixPath:
    """The target of a link, with `..` resolved; Refused where it is outside the folder."""
    parts: list[str] = list(base.parts)
    if info.linkname.startswith(("/", "\\")):
        raise _outside(archive, info)
    for part in PurePosixPath(info.linkname).parts:
        if part == ".." and not parts:
            raise _outside(archive, info)
        parts = parts[:-1] if part == ".." else [*parts, part]
    return PurePosixPath(*parts)


def _outside(archive: Path, info: tarfile.TarInfo) -> Refused:
    return Refused(f"{archive} holds a link to a file outside, {info.name!r} to {info.linkname!r}: not unpacked")


def _check_end(file: tarfile.TarFile) -> None:
    """Check that the archive ends with a block of zeros: tarfile also stops at a damaged header."""
    assert file.fileobj is not None
    file.fileobj.seek(file.offset)
    block = file.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or block.strip(b"\0"):
        raise ValueError("it ends before its end mark")


def check_together(entries: list[Entry]) -> None:
    """Refuse files that would overwrite each other."""
    paths: set[PurePosixPath] = set()
    for entry in entries:
        if entry.path in paths:
            raise Refused(f"{entry.archive} would write {str(entry.path)!r} twice: not unpacked")
        paths.add(entry.path)
    folders = {parent for path in paths for parent in path.parents}
    for entry in entries:
        if entry.path in folders:
            raise Refused(f"{entry.archive} has {str(entry.path)!r} both as a file and as a folder: not unpacked")


def _is_junk(path: PurePosixPath) -> bool:
    return any(part in JUNK or part.startswith("._") for part in path.parts)


def _is_zip(archive: Path) -> bool:
    with archive.open("rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


@contextmanager
def _open(archive: Path) -> Iterator[Callable[[Any], Any]]:
    """A function that opens a member by the `info` of its entry."""
    if _is_zip(archive):
        with zipfile.ZipFile(archive) as zipped:
            yield zipped.open
    else:
        with _open_tar(archive) as tarred:
            yield tarred.extractfile


class _Guarded:
    """A stream that limits the size of one read: tarfile reads names at once, and they can be declared gigabytes long."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.seek, self.tell, self._read = stream.seek, stream.tell, stream.read

    def read(self, size: int) -> bytes:
        if not 0 <= size <= PIECE:
            raise ValueError("it has a name of impossible length")
        return self._read(size)


@contextmanager
def _open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    with archive.open("rb") as file:
        start = file.read(6)
    opens: dict[bytes, Callable[[Path], Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
    unpacked = next((opens[sign] for sign in opens if start.startswith(sign)), lambda path: path.open("rb"))
    with unpacked(archive) as stream, tarfile.open(fileobj=_Guarded(stream), mode="r:") as file:  # type: ignore[call-overload]
        yield file


def _write(source: IO[bytes], target: Path, size: int) -> None:
    """Write a new file of exactly the declared size."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as out:
        left = size
        while left:
            data = source.read(min(CHUNK, left))
            if not data:
                raise ValueError(f"a file ends {left} bytes early")
            out.write(data)
            left -= len(data)
    if source.read(1):
        raise ValueError("a file is longer than declared")


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except Refused:
        raise
    except OSError as error:
        if error.errno is not None:  # an error of the disk, not of the archive
            raise
        raise Refused(f"{archive}: {_reason(archive, error)}") from error
    except Exception as error:  # on damaged data decoders raise BadZipFile, ReadError, zlib.error, EOFError, ...
        raise Refused(f"{archive}: {_reason(archive, error)}") from error


def _reason(archive: Path, error: Exception) -> str:
    words = describe_failure(archive, error)
    if words in ("not an image", "a zip archive", "a gzip archive") or words.startswith("a damaged"):
        why = str(error).splitlines()[0].rstrip(":") if str(error) else type(error).__name__
        return f"no archive that can be read, or a damaged one ({why}): download it again"
    return words
