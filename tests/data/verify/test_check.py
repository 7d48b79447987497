"""`dualtta data check`: which dataset it is, what is missing or damaged, what to do; nothing is ever written."""

import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from dualtta.cli import main
from dualtta.data.images import open_image
from dualtta.data.verify.check import check_folder

FORMATS = ("JPEG", "PNG", "WEBP", "BMP")


def listing(root: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.lstat().st_mtime_ns, p.lstat().st_size) for p in sorted(root.rglob("*"))}


def only(root: Path):
    before = listing(root)
    reports = check_folder(root)
    assert listing(root) == before
    assert len(reports) == 1
    return reports[0]


@pytest.mark.parametrize(
    ("make", "name", "images"),
    [
        ("pacs", "pacs", 56),
        ("office_home", "office_home", 260),
        ("waterbirds", "waterbirds", 12),
        ("imagenet_c", "imagenet_c", 60),
        ("imagenet", "imagenet", 6),
        ("mnist", "colored_mnist", 300),
        ("cifar10_npz", "cifar10", 24),
        ("cifar10_batches", "cifar10", 24),
        ("cifar10_c", "cifar10_c", 300),
    ],
)
def test_each_dataset_is_recognised_by_its_layout(layouts, tmp_path, make, name, images):
    report = only(getattr(layouts, make)(tmp_path / "x" / "y"))
    assert (report.dataset, report.images) == (name, images)
    assert only(tmp_path).dataset == name  # also from above, where an archive wraps its content


def test_a_balanced_subset_is_a_note_and_not_a_problem(layouts, tmp_path):
    report = only(layouts.pacs(tmp_path))
    assert report.ok
    assert report.domains == {"art_painting": 14, "cartoon": 14, "photo": 14, "sketch": 14}
    assert report.published["photo"] == 1670
    assert "a subset: 2 of every class" in report.notes[0]
    assert report.todo.startswith("ready: open_dataset('pacs'")


def test_an_image_folder_of_any_classes_is_counted(layouts, tmp_path):
    for name in ("sun/cat/1.png", "sun/dog/2.png", "rain/cat/3.png"):
        layouts.picture(tmp_path / name)
    report = only(tmp_path)
    assert (report.dataset, report.images, report.classes) == ("folder", 3, 2)
    assert report.domains == {"rain": 1, "sun": 2}


def jpeg(path: Path, keep: float) -> None:
    data = io.BytesIO()
    Image.fromarray(np.random.RandomState(0).randint(0, 256, (64, 64, 3)).astype(np.uint8)).save(data, "JPEG")
    path.write_bytes(data.getvalue()[: int(keep * len(data.getvalue()))])


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda p: jpeg(p, 0.6), "a damaged or truncated image"),
        (lambda p: p.write_bytes(b"<!DOCTYPE html>\n<html><title>404</title>"), "an HTML page saved under this name"),
        (lambda p: p.write_bytes(b"\n <html>"), "an HTML page saved under this name"),
        (lambda p: p.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n"), "a Git LFS pointer"),
        (lambda p: p.write_bytes(b""), "an empty file"),
        (lambda p: p.write_bytes(bytes(300)), "a file of zeros"),
        (lambda p: p.write_bytes(b"PK\x03\x04abc"), "a zip archive"),
        (lambda p: p.write_bytes(b"hello"), "not an image"),
        (replace_by_folder, "unreadable (Is a directory)"),
        (replace_by_dangling_link, "unreadable (No such file or directory)"),
    ],
)
def test_an_unreadable_image_is_reported_with_the_reason(layouts, tmp_path, damage, what):
    layouts.pacs(tmp_path)
    path = tmp_path / "cartoon" / "horse" / "pic_001.jpg"
    damage(path)
    report = only(tmp_path)
    assert [problem.path for problem in report.problems] == [str(path)]
    assert what in report.problems[0].what
    assert report.problems[0].file
    assert ("git lfs pull" if "LFS" in what else "replace the 1 file named above") in report.todo


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="whoever may read everything meets no unreadable file")
def test_a_file_without_read_permission_is_reported(layouts, tmp_path):
    layouts.pacs(tmp_path)
    path = tmp_path / "cartoon" / "horse" / "pic_001.jpg"
    path.chmod(0)
    assert "unreadable (Permission denied)" in only(tmp_path).problems[0].what


def remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.mark.parametrize(
    ("make", "damage", "what"),
    [
        ("pacs", lambda r: remove(r / "photo" / "guitar"), "photo lacks the class guitar"),
        ("pacs", lambda r: (r / "photo" / "guitar" / "pic_000.jpg").unlink(), "photo has 13 images; 1,670 are published"),
        ("pacs", lambda r: (r / "photo").rename(r / "fotos"), "photo is missing (1,670 images)"),
        ("pacs", lambda r: shutil.copytree(r / "photo" / "dog", r / "photo" / "zebra"), "not a class of PACS: zebra"),
        ("office_home", lambda r: (r / "Real World").rename(r / "RealWorld"), "rename it to 'Real World'"),
        ("waterbirds", lambda r: next(r.glob("003*/*")).unlink(), "unreadable (No such file or directory)"),
        ("imagenet", lambda r: None, "validation lacks the classes"),
        ("imagenet_c", lambda r: (r / "noise" / "shot_noise").rename(r / "gone"), "shot_noise_5 is missing"),
        ("cifar10_c", lambda r: (r / "fog.npy").unlink(), "fog_3 is missing (10,000 images)"),
        ("cifar10_c", lambda r: (r / "fog.npy").write_bytes((r / "fog.npy").read_bytes()[:999]), "fog.npy: damaged"),
        ("cifar10_c", lambda r: (r / "labels.npy").unlink(), "labels.npy"),
        ("cifar10_npz", lambda r: (r / "cifar10.npz").write_bytes(b"<html>"), "an HTML page"),
        ("cifar10_batches", lambda r: (r / "cifar-10-batches-py/data_batch_3").unlink(), "lacks data_batch_3"),
        ("mnist", lambda r: (r / "MNIST/raw/train-labels-idx1-ubyte").unlink(), "lacks MNIST/raw/train-labels"),
    ],
)
def test_missing_parts_are_reported(layouts, tmp_path, make, damage, what):
    damage(getattr(layouts, make)(tmp_path))
    report = only(tmp_path)
    assert not report.ok
    assert any(what in problem.what for problem in report.problems), report.problems
    assert report.todo
    assert "\n" not in report.todo


def test_severities_left_out_are_noted(layouts, tmp_path):
    report = only(layouts.imagenet_c(tmp_path, severities=(5,), classes=tuple(range(3))))
    assert report.notes[:4] == [f"severity {s} is not included" for s in (1, 2, 3, 4)]
    assert "is missing" not in str(report.problems)


def test_several_datasets_side_by_side_are_all_found(layouts, tmp_path):
    layouts.mnist(tmp_path)
    layouts.cifar10_npz(tmp_path)
    layouts.pacs(tmp_path / "PACS")
    layouts.waterbirds(tmp_path / "birds" / "waterbird_complete95_forest2water2")
    assert {report.dataset for report in check_folder(tmp_path)} == {"colored_mnist", "cifar10", "pacs", "waterbirds"}


def test_output_and_exit_code_of_the_command(layouts, tmp_path, capsys):
    layouts.pacs(tmp_path / "a")
    assert main(["data", "check", str(tmp_path / "a")]) == 0
    assert "PACS (pacs)" in capsys.readouterr().out
    path = tmp_path / "a" / "photo" / "dog" / "pic_000.jpg"
    path.write_bytes(b"<html>")
    assert main(["data", "check", str(tmp_path / "a")]) == 1
    out = capsys.readouterr().out
    assert f"{path}: an HTML page" in out
    assert "replace the 1 file named above from" in out
    assert main(["data", "check", str(tmp_path / "a"), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["datasets"][0]["dataset"]) == (False, "pacs")
    assert answer["datasets"][0]["problems"][0]["path"] == str(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no folder"),
        ([], "it is empty"),
        (["notes.txt"], "it holds notes.txt"),
        (["1.jpg"], "there must be one folder per class"),
        (["PACS.zip"], "it holds archives (PACS.zip); unpack them with `dualtta data prepare"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, content, message):
    root = tmp_path / "data"
    if content is not None:
        root.mkdir()
        for name in content:
            (root / name).write_text("x")
    before = listing(tmp_path)
    assert main(["data", "check", str(root)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err
    assert captured.out == ""
    assert listing(tmp_path) == before


@pytest.mark.parametrize("arguments", [["data"], ["data", "chekc", "x"], ["data", "check"], ["data", "check", "a", "b"]])
def test_a_misspelt_command_is_one_line_and_exit_code_2(capsys, arguments):
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def image_bytes(kind: str) -> bytes:
    data = io.BytesIO()
    Image.fromarray(np.random.RandomState(1).randint(0, 256, (24, 20, 3)).astype(np.uint8)).save(data, kind)
    return data.getvalue()


WHOLE = {kind: image_bytes(kind) for kind in FORMATS}


@given(
    kind=st.sampled_from(FORMATS),
    cut=st.floats(0, 1),
    flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8),
    rubbish=st.binary(max_size=20),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_images_never_crash_the_check_and_get_one_line_each(tmp_path, kind, cut, flips, rubbish):
    data = bytearray(WHOLE[kind])
    for place, value in flips:
        data[int(place * len(data))] = value
    root = tmp_path / "fuzz"
    (root / "a" / "b").mkdir(parents=True, exist_ok=True)
    (root / "a" / "b" / "x.jpg").write_bytes(bytes(data[: int(cut * len(data))]) + rubbish)
    report = check_folder(root)[0]
    assert len(report.problems) <= 1
    for problem in report.problems:
        assert problem.what
        assert "\n" not in problem.what


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_truncated_image_is_never_accepted(tmp_path, kind, share):
    path = tmp_path / "x.jpg"
    path.write_bytes(WHOLE[kind][: int(share * len(WHOLE[kind]))])
    with pytest.raises(ValueError, match="truncated"):
        open_image(path)


def test_an_image_that_declares_a_huge_size_is_not_decoded(tmp_path):
    data = bytearray(image_bytes("BMP"))
    data[18:22] = data[22:26] = (20000).to_bytes(4, "little")
    (tmp_path / "x.bmp").write_bytes(bytes(data))
    with pytest.raises(ValueError, match=r"x\.bmp: "):
        open_image(tmp_path / "x.bmp")
