"""Unsafe or damaged archives are refused with one line, and nothing of them is written."""

import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualtta.cli import main
from dualtta.data.verify import archives
from dualtta.data.verify.prepare import prepare


def test_a_name_that_would_fill_the_memory_is_not_read(tmp_path):
    with pytest.raises(ValueError, match="a name of impossible length"):
        prepare(long_name(tmp_path / "a.tar.gz"), tmp_path / "out")


def tar_with(archive: Path, *members: tuple[tarfile.TarInfo, bytes], mode: str = "w") -> Path:
    with tarfile.open(archive, mode) as file:
        for info, data in members:
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return archive


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zip_with(archive: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in members:
            file.writestr(name, data)
    return archive


def zip_link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info


def bomb(archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for i in range(3):
            file.writestr(f"photo/dog/{i}.jpg", bytes(40 * 2**20))
    return archive


def tar_claiming(archive: Path, size: int) -> Path:
    info = member("photo/dog/1.jpg")
    info.size = size
    archive.write_bytes(info.tobuf() + bytes(10240))
    return archive


def long_name(archive: Path) -> Path:
    """A few kilobytes that declare a name of 32 MiB."""
    info = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    info.size = 2**25
    archive.write_bytes(gzip.compress(info.tobuf() + bytes(2**25 + 10240)))
    return archive


def encrypted(archive: Path) -> Path:
    zip_with(archive, ("photo/dog/1.jpg", b"x"))
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(bytes(data))
    return archive


UNSAFE = {
    "tar, parent": lambda t: tar_with(t / "a.tar", (member("photo/dog/1.jpg"), b"x"), (member("../evil"), b"x")),
    "tar, absolute": lambda t: tar_with(t / "a.tar", (member("/evil"), b"x")),
    "tar.gz, parent": lambda t: tar_with(t / "a.tar.gz", (member("a/../../evil"), b"x"), mode="w:gz"),
    "tar, backslashes": lambda t: tar_with(t / "a.tar", (member("..\\evil"), b"x")),
    "tar, symlink out": lambda t: tar_with(t / "a.tar", (member("l", tarfile.SYMTYPE, "/etc/passwd"), b"")),
    "tar, symlink up": lambda t: tar_with(t / "a.tar", (member("a/l", tarfile.SYMTYPE, "../../evil"), b"")),
    "tar, through a link": lambda t: tar_with(t / "a.tar", (member("l", tarfile.SYMTYPE, "."), b""), (member("l/x"), b"x")),
    "tar, hardlink out": lambda t: tar_with(t / "a.tar", (member("l", tarfile.LNKTYPE, "../evil"), b"")),
    "tar, link loop": lambda t: tar_with(
        t / "a.tar", (member("a", tarfile.SYMTYPE, "b"), b""), (member("b", tarfile.SYMTYPE, "a"), b"")
    ),
    "tar, device": lambda t: tar_with(t / "a.tar", (member("d", tarfile.CHRTYPE), b"")),
    "tar, fifo": lambda t: tar_with(t / "a.tar", (member("d", tarfile.FIFOTYPE), b"")),
    "tar, twice": lambda t: tar_with(t / "a.tar", (member("a"), b"x"), (member("./a"), b"y")),
    "tar, file and folder": lambda t: tar_with(t / "a.tar", (member("a"), b"x"), (member("a/b"), b"y")),
    "tar, claims a petabyte": lambda t: tar_claiming(t / "a.tar", 2**50),
    "zip, parent": lambda t: zip_with(t / "a.zip", ("photo/dog/1.jpg", b"x"), ("../evil", b"x")),
    "zip, absolute": lambda t: zip_with(t / "a.zip", ("/evil", b"x")),
    "zip, drive": lambda t: zip_with(t / "a.zip", ("C:\\evil", b"x")),
    "zip, link": lambda t: zip_with(t / "a.zip", (zip_link("l"), b"/etc/passwd")),
    "zip, bomb": lambda t: bomb(t / "a.zip"),
    "zip, encrypted": lambda t: encrypted(t / "a.zip"),
}


def everything(root: Path) -> list[str]:
    return sorted(str(p) for p in root.rglob("*"))


@pytest.mark.parametrize("case", UNSAFE)
def test_an_unsafe_archive_is_refused_before_anything_is_written(tmp_path, capsys, case):
    (tmp_path / "in").mkdir()
    archive = UNSAFE[case](tmp_path / "in")
    before = everything(tmp_path)
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert str(archive) in captured.err
    assert "download it again" not in captured.err  # seen through, not stumbled over
    assert everything(tmp_path) == before
    assert not (tmp_path.parent / "evil").exists()


def test_an_archive_among_safe_ones_stops_them_all(layouts, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    layouts.tar(layouts.pacs(tmp_path / "PACS"), tmp_path / "in" / "a.tar")
    zip_with(tmp_path / "in" / "b.zip", ("../evil", b"x"))
    before = everything(tmp_path)
    assert main(["data", "prepare", str(tmp_path / "in"), str(tmp_path / "out")]) == 2
    assert everything(tmp_path) == before


def test_a_link_to_a_file_of_the_archive_becomes_a_copy(layouts, tmp_path):
    root = layouts.pacs(tmp_path / "PACS")
    with tarfile.open(tmp_path / "a.tar", "w") as file:
        file.add(root, "PACS")
        file.addfile(member("PACS/photo/dog/soft.jpg", tarfile.SYMTYPE, "../cat/../dog/pic_000.jpg"))
        file.addfile(member("PACS/photo/dog/hard.jpg", tarfile.LNKTYPE, "PACS/photo/dog/pic_000.jpg"))
    prepare(tmp_path / "a.tar", tmp_path / "out")
    for name in ("soft", "hard"):
        copy = tmp_path / "out" / "photo" / "dog" / f"{name}.jpg"
        assert not copy.is_symlink()
        assert copy.read_bytes() == (root / "photo" / "dog" / "pic_000.jpg").read_bytes()


def test_more_files_than_any_dataset_has_are_refused(layouts, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST", 10)
    with pytest.raises(ValueError, match="far more"):
        prepare(layouts.tar(layouts.pacs(tmp_path / "PACS"), tmp_path / "a.tar"), tmp_path / "out")


def whole_tar(tmp_path: Path, layouts) -> bytes:
    return layouts.tar(layouts.pacs(tmp_path / "PACS"), tmp_path / "whole.tar").read_bytes()


def damage_header(data: bytes) -> bytes:
    place = data.index(b"PACS/photo/dog/pic_000.jpg")
    return data[:place] + b"\xff" * 400 + data[place + 400 :]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: d[: len(d) // 2], "download it again"),
        (lambda d: d[: len(d) // 1024 * 512], "download it again"),
        (damage_header, "download it again"),
        (lambda d: gzip.compress(d)[:-2000], "download it again"),
        (lambda d: b"<!DOCTYPE html><html>quota exceeded</html>", "an HTML page saved under this name"),
        (lambda d: b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        (lambda d: b"", "an empty file"),
        (lambda d: b"hello", "download it again"),
    ],
)
def test_a_damaged_archive_is_named_and_nothing_is_left(layouts, tmp_path, capsys, spoil, message):
    data = spoil(whole_tar(tmp_path, layouts))
    (tmp_path / "a.tar").write_bytes(data)
    before = everything(tmp_path)
    assert main(["data", "prepare", str(tmp_path / "a.tar"), str(tmp_path / "out")]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert everything(tmp_path) == before


@pytest.fixture(scope="module")
def seeds(layouts, tmp_path_factory):
    """Small whole archives to damage."""
    home = tmp_path_factory.mktemp("seeds")
    root = home / "a"
    for name in ("x/cat/1.png", "x/dog/2.png"):
        layouts.picture(root / name, size=(3, 3))
    packs = [
        layouts.tar(root, home / "a.tar"),
        layouts.tar(root, home / "b.tar", "w:gz"),
        layouts.zip(root, home / "c.zip"),
    ]
    return [pack.read_bytes() for pack in packs]


@given(
    which=st.integers(0, 2),
    cut=st.floats(0.02, 1),
    flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=12),
    early=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_archives_never_crash_and_never_write_outside(tmp_path, seeds, which, cut, flips, early):
    data = bytearray(seeds[which])
    for place, value in flips:
        data[int(place * len(data))] = value
    for place, value in early:
        data[min(place, len(data) - 1)] = value
    home = tmp_path / "fuzz"
    home.mkdir(exist_ok=True)
    archive = home / "a.bin"
    archive.write_bytes(bytes(data[: int(cut * len(data))]))
    out = home / "out"
    refusal = ""
    try:
        prepare(archive, out)
    except (ValueError, OSError) as error:
        refusal = str(error)
    assert out.exists() != bool(refusal)
    assert "\n" not in refusal
    assert {p.name for p in home.iterdir()} <= {"a.bin", "out"}
    assert {p.name for p in tmp_path.iterdir()} == {"fuzz"}
    shutil.rmtree(out, ignore_errors=True)


@given(name=st.text(st.sampled_from("./\\aC:\0~"), max_size=8))
@settings(max_examples=300, deadline=None)
def test_a_members_path_stays_below_its_folder_or_is_refused(name):
    try:
        path = archives.safe_path(Path("a.zip"), name)
    except archives.Refused:
        return
    base = Path("/base/folder")
    assert Path(os.path.normpath(base / path)).is_relative_to(base)
