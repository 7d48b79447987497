"""`dualtta data prepare`: archives as published become folders; a run that fails leaves nothing behind."""

import gzip
import os
import shutil
import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dualtta.cli import main
from dualtta.data import open_dataset
from dualtta.data.verify import show
from dualtta.data.verify.check import check_folder
from dualtta.data.verify.prepare import prepare


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(
    ("make", "wrapped", "pack", "name"),
    [
        ("pacs", "kfold", lambda layouts, r, t: layouts.zip(r, t / "PACS.zip"), "pacs"),
        (
            "office_home",
            "OfficeHomeDataset_10072016",
            lambda layouts, r, t: layouts.zip(r, t / "OfficeHome.zip"),
            "office_home",
        ),
        (
            "waterbirds",
            "waterbird_complete95_forest2water2",
            lambda layouts, r, t: layouts.tar(r, t / "waterbirds.tar.gz", "w:gz"),
            "waterbirds",
        ),
        ("cifar10_c", "CIFAR-10-C", lambda layouts, r, t: layouts.tar(r, t / "CIFAR-10-C.tar"), "cifar10_c"),
        (
            "cifar10_batches",
            "cifar",
            lambda layouts, r, t: layouts.tar(r, t / "cifar-10-python.tar.gz", "w:gz", ""),
            "cifar10",
        ),
        ("mnist", "mnist", lambda layouts, r, t: layouts.tar(r, t / "MNIST.tar.xz", "w:xz"), "colored_mnist"),
        ("imagenet", "val", lambda layouts, r, t: layouts.tar(r, t / "val.tar.bz2", "w:bz2"), "imagenet"),
    ],
)
def test_an_archive_as_published_becomes_a_folder_that_opens(layouts, tmp_path, capsys, make, wrapped, pack, name):
    (tmp_path / "download").mkdir()
    made = getattr(layouts, make)(tmp_path / "download" / wrapped)
    archive = pack(layouts, made, tmp_path)
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
        layouts.tar(tmp_path / kind, tmp_path / "download" / f"{kind}.tar", top="")
    prepare(tmp_path / "download", tmp_path / "out")
    data = open_dataset("imagenet_c", tmp_path / "out")
    assert len(data.domains) == 15
    assert len(data) == 30


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
    archive = layouts.zip(layouts.pacs(tmp_path / "p"), tmp_path / "a.zip")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in (".", str(tmp_path / "here")):
        assert main(["data", "prepare", str(archive), name]) == 2
        assert "name a folder to make in it" in capsys.readouterr().err
    assert not list((tmp_path / "here").iterdir())


def test_several_datasets_in_one_folder_of_archives_get_a_folder_each(layouts, tmp_path):
    (tmp_path / "src").mkdir()
    layouts.tar(layouts.pacs(tmp_path / "PACS"), tmp_path / "src" / "pacs.tar")
    layouts.zip(layouts.waterbirds(tmp_path / "birds"), tmp_path / "src" / "birds.zip")
    prepare(tmp_path / "src", tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["pacs", "waterbirds"]
    assert all(report.ok for report in check_folder(tmp_path / "out"))


def everything(root: Path) -> list[str]:
    return sorted(str(p) for p in root.rglob("*"))


def test_more_than_the_disk_holds_is_refused(layouts, tmp_path, monkeypatch, capsys):
    archive = layouts.tar(layouts.pacs(tmp_path / "PACS"), tmp_path / "a.tar")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    before = everything(tmp_path)
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 2
    assert "are free: make room" in capsys.readouterr().err
    assert everything(tmp_path) == before


def zip_of(archive: Path, name: str) -> Path:
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, b"x")
    return archive


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
        (lambda t, layouts: zip_of(t / "a.zip", "readme.txt"), lambda t: t / "out", "no dataset that is recognised"),
        (lambda t, layouts: zip_of(t / "a.zip", "1.jpg"), lambda t: t / "out", "one folder per class"),
        (
            lambda t, layouts: layouts.zip(layouts.pacs(t / "p"), t / "a.zip"),
            lambda t: t / "no" / "out",
            "there is no folder",
        ),
        (lambda t, layouts: layouts.zip(layouts.pacs(t / "p"), t / "a.zip"), lambda t: t / "p", "is not overwritten"),
        (
            lambda t, layouts: layouts.zip(layouts.pacs(t / "p"), t / "a.zip"),
            lambda t: make_file(t / "f"),
            "is not overwritten",
        ),
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
    prepare(layouts.zip(layouts.pacs(tmp_path / "p"), tmp_path / "a.zip"), tmp_path / "out")
    assert check_folder(tmp_path / "out")[0].ok


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_behind(layouts, tmp_path, monkeypatch, capsys, how):
    archive = layouts.tar(layouts.pacs(tmp_path / "PACS"), tmp_path / "a.tar")
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
    archive = layouts.zip(layouts.pacs(tmp_path / "p"), tmp_path / "a.zip")
    assert main(["data", "prepare", str(archive), str(tmp_path / "out")]) == 0
    assert ".out.part-123 was left by a run that was killed" in capsys.readouterr().err
