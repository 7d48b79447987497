"""`dualtta data prepare`: archives as published become folders; anything unsafe or damaged is refused with nothing written."""

import gzip
import io
import os
import shutil
import signal
import stat
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dualtta.cli import main
from dualtta.data import open_dataset
from dualtta.data.verify import archives, show
from dualtta.data.verify.check import check_folder
from dualtta.data.verify.prepare import prepare


def zipped(root: Path, archive: Path) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(root.rglob("*")):
            file.write(path, f"{root.name}/{path.relative_to(root)}")
        file.writestr("__MACOSX/._x.jpg", b"junk")
    return archive


def tarred(root: Path, archive: Path, mode: str = "w", top: str | None = None) -> Path:
    with tarfile.open(archive, mode) as file:
        file.add(root, root.name if top is None else top)
    return archive


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("make", "wrapped", "pack", "name"),
    [
        ("pacs", "kfold", lambda r, t: zipped(r, t / "PACS.zip"), "pacs"),
        ("office_home", "OfficeHomeDataset_10072016", lambda r, t: zipped(r, t / "OfficeHome.zip"), "office_home"),
        (
            "waterbirds",
            "waterbird_complete95_forest2water2",
            lambda r, t: tarred(r, t / "waterbirds.tar.gz", "w:gz"),
            "waterbirds",
        ),
        ("cifar10_c", "CIFAR-10-C", lambda r, t: tarred(r, t / "CIFAR-10-C.tar"), "cifar10_c"),
        ("cifar10_batches", "cifar", lambda r, t: tarred(r, t / "cifar-10-python.tar.gz", "w:gz", ""), "cifar10"),
        ("mnist", "mnist", lambda r, t: tarred(r, t / "MNIST.tar.xz", "w:xz"), "colored_mnist"),
        ("imagenet", "val", lambda r, t: tarred(r, t / "val.tar.bz2", "w:bz2"), "imagenet"),
    ],
)
def test_an_archive_as_published_becomes_a_folder_that_opens(layouts, tmp_path, capsys, make, wrapped, pack, name):
    (tmp_path / "download").mkdir()
    made = getattr(layouts, make)(tmp_path / "download" / wrapped)
    archive = pack(made, tmp_path)
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 0
    assert str(tmp_path / "out") in capsys.readouterr().out
    assert [report.dataset for report in check_folder(tmp_path / "out")] == [name]
    settings_ = {"severities": (1, 5)} if name.endswith("_c") else {}
    ours, theirs = (open_dataset(name, root, **settings_) for root in (tmp_path / "out", made))
    assert len(ours) == len(theirs)
    assert (np.asarray(ours.image(1)) == np.asarray(theirs.image(1))).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([archive.name, "download", "out"])


def test_imagenet_c_in_its_four_archives_becomes_one_folder(layouts, tmp_path):
    (tmp_path / "download").mkdir()
    for kind in layouts.KINDS:
        layouts.imagenet_c(tmp_path / kind, below_kinds=False, kinds=(kind,))
        tarred(tmp_path / kind, tmp_path / "download" / f"{kind}.tar", top="")
    prepare(tmp_path / "download", tmp_path / "out")
    data = open_dataset("imagenet_c", tmp_path / "out")
    assert len(data.domains) == 15
    assert len(data) == 30


def test_a_name_that_would_fill_the_memory_is_not_read(tmp_path):
    with pytest.raises(ValueError, match="a name of impossible length"):
        prepare(long_name(tmp_path / "a.tar.gz"), tmp_path / "out")


@pytest.mark.parametrize("dotted", [False, True])
def test_mnists_gzipped_files_become_torchvisions_layout(layouts, tmp_path, dotted):
    layouts.mnist(tmp_path / "x", packed=True)
    (tmp_path / "src").mkdir()
    for path in (tmp_path / "x" / "MNIST" / "raw").iterdir():
        shutil.copy(path, tmp_path / "src" / (path.name.replace("-idx", ".idx") if dotted else path.name))
    prepare(tmp_path / "src", tmp_path / "out")
    plain = layouts.mnist(tmp_path / "plain")
    assert content(tmp_path / "out") == content(plain)


@pytest.mark.parametrize("damaged", [False, True])
def test_datasets_beside_mnists_files_are_not_moved(layouts, tmp_path, damaged):
    layouts.pacs(tmp_path / "src" / "a_pacs")
    raw = layouts.mnist(tmp_path / "src" / "mnist", packed=True) / "MNIST" / "raw"
    if damaged:
        images = raw / "train-images-idx3-ubyte.gz"
        images.write_bytes(gzip.compress(gzip.decompress(images.read_bytes())[:-5]))
    before = content(tmp_path / "src")
    assert main(["data", "prepare", str(tmp_path / "src"), str(tmp_path / "out")]) == (2 if damaged else 0)
    assert content(tmp_path / "src") == before
    if not damaged:
        assert [(one.dataset, one.path) for one in check_folder(tmp_path / "out")] == [("colored_mnist", str(tmp_path / "out"))]


def test_the_current_folder_is_refused_before_anything_is_unpacked(layouts, tmp_path, monkeypatch, capsys):
    archive = zipped(layouts.pacs(tmp_path / "p"), tmp_path / "a.zip")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in (".", str(tmp_path / "here")):
        assert main(["data", "prepare", str(archive), name]) == 2
        assert "name a folder to make in it" in capsys.readouterr().err
    assert not list((tmp_path / "here").iterdir())


def test_several_datasets_in_one_folder_of_archives_get_a_folder_each(layouts, tmp_path):
    (tmp_path / "src").mkdir()
    tarred(layouts.pacs(tmp_path / "PACS"), tmp_path / "src" / "pacs.tar")
    zipped(layouts.waterbirds(tmp_path / "birds"), tmp_path / "src" / "birds.zip")
    prepare(tmp_path / "src", tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["pacs", "waterbirds"]
    assert all(report.ok for report in check_folder(tmp_path / "out"))


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
    tarred(layouts.pacs(tmp_path / "PACS"), tmp_path / "in" / "a.tar")
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


def test_more_than_the_disk_holds_is_refused(layouts, tmp_path, monkeypatch, capsys):
    archive = tarred(layouts.pacs(tmp_path / "PACS"), tmp_path / "a.tar")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    before = everything(tmp_path)
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 2
    assert "are free: make room" in capsys.readouterr().err
    assert everything(tmp_path) == before


def test_more_files_than_any_dataset_has_are_refused(layouts, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST", 10)
    with pytest.raises(ValueError, match="far more"):
        prepare(tarred(layouts.pacs(tmp_path / "PACS"), tmp_path / "a.tar"), tmp_path / "out")


def whole_tar(tmp_path: Path, layouts) -> bytes:
    return tarred(layouts.pacs(tmp_path / "PACS"), tmp_path / "whole.tar").read_bytes()


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


def make_file(path: Path) -> Path:
    path.write_text("x")
    return path


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        (lambda t, layouts: t / "none", lambda t: t / "out", "there is no file or folder"),
        (lambda t, layouts: layouts.pacs(t / "p"), lambda t: t / "out", "has the right layout already (PACS)"),
        (lambda t, layouts: layouts.mnist(t / "m"), lambda t: t / "out", "has the right layout already (MNIST"),
        (lambda t, layouts: make_file(t / "x").parent, lambda t: t / "out", "neither an archive"),
        (lambda t, layouts: zip_with(t / "a.zip", ("readme.txt", b"x")), lambda t: t / "out", "no dataset that is recognised"),
        (lambda t, layouts: zip_with(t / "a.zip", ("1.jpg", b"x")), lambda t: t / "out", "one folder per class"),
        (lambda t, layouts: zipped(layouts.pacs(t / "p"), t / "a.zip"), lambda t: t / "no" / "out", "there is no folder"),
        (lambda t, layouts: zipped(layouts.pacs(t / "p"), t / "a.zip"), lambda t: t / "p", "is not overwritten"),
        (lambda t, layouts: zipped(layouts.pacs(t / "p"), t / "a.zip"), lambda t: make_file(t / "f"), "is not overwritten"),
    ],
)
def test_bad_input_is_one_line_exit_code_2_and_nothing_written(layouts, tmp_path, capsys, src, dst, message):
    source, target = src(tmp_path, layouts), dst(tmp_path)
    before = everything(tmp_path)
    assert main(["data", "prepare", str(source), str(target)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert everything(tmp_path) == before


def test_an_empty_folder_may_be_the_destination(layouts, tmp_path):
    (tmp_path / "out").mkdir()
    prepare(zipped(layouts.pacs(tmp_path / "p"), tmp_path / "a.zip"), tmp_path / "out")
    assert check_folder(tmp_path / "out")[0].ok


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(layouts, tmp_path, monkeypatch, capsys, how):
    archive = tarred(layouts.pacs(tmp_path / "PACS"), tmp_path / "a.tar")
    before = everything(tmp_path)
    seen = []

    def track(jobs, *_, **__):
        for number, job in enumerate(jobs):
            if number == 20:
                seen.extend(tmp_path.glob(".out.part-*/content/PACS/*/*/*"))
                os.kill(os.getpid(), how)
            yield job

    monkeypatch.setattr(show, "track", track)
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 130
    assert len(seen) == 20  # it was in the middle of it
    assert "interrupted" in capsys.readouterr().err
    assert everything(tmp_path) == before


def test_leftovers_of_a_killed_run_are_reported(layouts, tmp_path, capsys):
    (tmp_path / ".out.part-123").mkdir()
    archive = zipped(layouts.pacs(tmp_path / "p"), tmp_path / "a.zip")
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 0
    assert ".out.part-123 was left by a run that was killed" in capsys.readouterr().err


@pytest.fixture(scope="module")
def seeds(layouts, tmp_path_factory):
    """Small whole archives to damage."""
    home = tmp_path_factory.mktemp("seeds")
    root = home / "a"
    for name in ("x/cat/1.png", "x/dog/2.png"):
        layouts.picture(root / name, size=(3, 3))
    packs = [tarred(root, home / "a.tar"), tarred(root, home / "b.tar", "w:gz"), zipped(root, home / "c.zip")]
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
