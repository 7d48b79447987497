"""`dualtta data corrupt`: what it writes, that it goes on after any end, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dualtta.data.corrupt import RECORD, Recipe, corrupt_folder, list_images, prepare, read
from dualtta.data.corruptions import CORRUPTIONS, corrupt, rng_for

FAST = ("contrast", "fog")


def make_folder(root: Path, classes: int = 2, each: int = 3, size: tuple[int, int] = (50, 37)) -> Path:
    rng = np.random.RandomState(0)
    for label in range(classes):
        (root / f"n{label:02}").mkdir(parents=True)
        for number in range(each):
            pixels = rng.randint(0, 256, size=(size[1], size[0], 3)).astype(np.uint8)
            Image.fromarray(pixels).save(root / f"n{label:02}" / f"img_{number}.png")
    return root


@pytest.fixture
def source(tmp_path):
    return make_folder(tmp_path / "source")


def written(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def make(recipe: Recipe, workers: int = 1) -> list[str]:
    return [made.image for made in corrupt_folder(recipe, prepare(recipe), workers)]


def test_the_command_writes_the_layout_of_imagenet_c(source, tmp_path, cli):
    target = tmp_path / "target"
    result = cli(
        "data",
        "corrupt",
        source,
        target,
        "--corruptions",
        "frost,fog",
        "--severities",
        2,
        5,
        "--size",
        "keep",
        "--workers",
        2,
        "--json",
    )
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert (told["written"], told["skipped"], told["unreadable"]) == (24, 0, [])
    names = [
        f"{name}/{s}/n{c:02}/img_{k}.JPEG" for name in ("fog", "frost") for s in (2, 5) for c in range(2) for k in range(3)
    ]
    assert sorted(written(target)) == sorted([*names, RECORD])
    assert json.loads((target / RECORD).read_text())["frost"] == told["frost"]
    expected = corrupt(read(source / "n01/img_2.png", "keep"), "fog", 5, rng_for(2024, "fog", 5, 5))  # the sixth image
    Image.fromarray(expected).save(tmp_path / "expected.jpg", quality=85, optimize=True)
    assert (target / "fog/5/n01/img_2.JPEG").read_bytes() == (tmp_path / "expected.jpg").read_bytes()


def test_all_fifteen_are_the_default(tmp_path):
    source = make_folder(tmp_path / "source", 1, 1, (32, 32))
    recipe = Recipe(source, tmp_path / "target", size="keep")
    assert make(recipe) == []
    assert {path.name for path in recipe.target.iterdir()} == {*CORRUPTIONS, RECORD}
    assert len(written(recipe.target)) == 75 + 1


def test_workers_and_order_change_nothing(source, tmp_path):
    recipes = [Recipe(source, tmp_path / name, FAST, (3,), size="keep") for name in ("one", "many", "apart")]
    make(recipes[0])
    make(recipes[1], workers=3)
    make(Recipe(source, tmp_path / "apart", FAST[1:], (3,), size="keep"))
    make(recipes[2])
    one, many, apart = (written(recipe.target) for recipe in recipes)
    assert one == many == apart
    make(Recipe(source, tmp_path / "seeded", FAST, (3,), seed=1, size="keep"))
    seeded = written(tmp_path / "seeded")
    assert [key for key in one if one[key] != seeded[key]] == [RECORD, *(key for key in one if key.startswith("fog"))]


def test_existing_images_stay_and_missing_ones_are_made(source, tmp_path):
    recipe = Recipe(source, tmp_path / "target", FAST, (1, 2), size="keep")
    make(recipe)
    before = written(recipe.target)
    recipe.path("fog", 1, "n00/img_0.png").unlink()
    (recipe.target / "contrast/2/n00/img_1.JPEG").write_bytes(b"finished")
    counts: list[tuple[int, int]] = []
    corrupt_folder(recipe, prepare(recipe), 1, lambda made: counts.append((made.written, made.skipped)))
    assert counts == [(1, 3), *[(0, 4)] * 5]
    assert written(recipe.target) == {**before, "contrast/2/n00/img_1.JPEG": b"finished"}


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.slow
def test_an_interrupted_run_leaves_whole_files_and_the_next_continues(tmp_path, ending, cli):
    source, target, whole = make_folder(tmp_path / "source", 4, 30, (90, 90)), tmp_path / "target", tmp_path / "whole"
    options = ["--corruptions", "zoom_blur", "elastic_transform", "--severities", "3", "--size", "160", "--workers", "2"]
    command = [sys.executable, "-m", "dualtta", "data", "corrupt", str(source), str(target), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while len(list(target.rglob("*.JPEG"))) < 10:
        with pytest.raises(subprocess.TimeoutExpired):  # it must not end before
            process.wait(0.01)
    if ending == signal.SIGINT:  # as a terminal does: to every process of the group
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.strip().endswith("dualtta: interrupted")
        assert "Traceback" not in errors
        assert list(target.rglob("*.part")) == []
    else:
        process.kill()
        process.communicate(timeout=60)  # until all have closed the pipes: workers end with their parent
    halves = [path for path in target.rglob("*.JPEG") if not opens(path)]
    assert halves == []
    assert 10 <= len(list(target.rglob("*.JPEG"))) < 240
    assert cli("data", "corrupt", source, target, *options).returncode == 0
    assert cli("data", "corrupt", source, whole, *options).returncode == 0
    assert written(target) == written(whole)


def opens(path: Path) -> bool:
    with Image.open(path) as image:
        image.load()
    return True


def test_a_disk_that_fills_within_an_image_leaves_nothing_of_it(source, tmp_path):
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600)); from dualtta.cli import main\n"
        f"sys.exit(main(['data', 'corrupt', {str(source)!r}, {str(tmp_path / 'target')!r}, '--workers', '1',"
        " '--corruptions', 'gaussian_noise', '--size', '64']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.strip()) == (2, "dualtta: [Errno 27] File too large")
    assert [path.name for path in (tmp_path / "target").rglob("*") if path.is_file()] == [RECORD]


def test_unreadable_images_are_reported_and_the_others_written(source, tmp_path, cli):
    whole = (source / "n00/img_0.png").read_bytes()
    (source / "n00/img_0.png").write_bytes(whole[: len(whole) // 2])
    (source / "n01/img_1.png").write_text("<html>404</html>")
    (source / "n01/empty.jpg").write_bytes(b"")
    (source / "n01/pointer.jpg").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    (source / "n01/notes.txt").write_text("no image")
    result = cli("data", "corrupt", source, tmp_path / "target", "--corruptions", "contrast", "--severities", 1, "--workers", 1)
    assert result.returncode == 1
    lines = result.stderr.strip().splitlines()
    assert [line.split()[1] for line in lines] == ["n00/img_0.png", "n01/empty.jpg", "n01/img_1.png", "n01/pointer.jpg"]
    assert "4 written, 0 already there, 4 of 8 images unreadable" in result.stdout
    assert len(list((tmp_path / "target").rglob("*.JPEG"))) == 4


def test_damaged_images_of_any_kind_never_stop_a_run(tmp_path):
    rng = np.random.RandomState(0)
    pixels = Image.fromarray(rng.randint(0, 256, size=(24, 24, 3)).astype(np.uint8))
    (tmp_path / "source").mkdir()
    for number in range(120):
        kind = ("jpg", "png", "webp", "bmp")[number % 4]
        path = tmp_path / "source" / f"{number}.{kind}"
        pixels.save(path)
        content = bytearray(path.read_bytes())
        for place in rng.randint(0, len(content), size=rng.randint(1, 9)):
            content[place] = rng.randint(256)
        path.write_bytes(content[: rng.randint(len(content)) if rng.randint(2) else None])
    Image.new("RGB", (1, 60_000)).save(tmp_path / "source" / "narrow.png")
    recipe = Recipe(tmp_path / "source", tmp_path / "target", ("contrast",), (1,))
    images = prepare(recipe)
    unreadable = [made.image for made in corrupt_folder(recipe, images)]
    made = {path.stem for path in recipe.target.rglob("*.JPEG") if opens(path)}
    assert "narrow.png" in unreadable
    assert 20 < len(unreadable) < 120
    assert made == {Path(image).stem for image in images} - {Path(image).stem for image in unreadable}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--corruptions", "gausian_noise"], "did you mean gaussian_noise?"),
        (["--corruptions", ","], "at least one corruption"),
        (["--severities", "6"], "no severity 6: take 1 to 5"),
        (["--severities", "high"], "'high' is not a whole number"),
        (["--size", "huge"], "'huge' is not a whole number"),
        (["--size", "0"], "take 224, or keep"),
        (["--seed", "-1"], "not between 0 and"),
        (["--workers", "-1"], "take 1 or more"),
        (["--frost", "nowhere"], "lacks frost1.png"),
        (["--severity", "1"], "severity"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_written(source, tmp_path, options, message, cli):
    refused(cli("data", "corrupt", source, tmp_path / "target", *options), message)
    assert not (tmp_path / "target").exists()


def test_bad_folders_are_one_line_and_nothing_is_written(source, tmp_path, cli):
    refused(cli("data", "corrupt", tmp_path / "none", tmp_path / "target"), "there is no folder")
    (tmp_path / "empty").mkdir()
    refused(cli("data", "corrupt", tmp_path / "empty", tmp_path / "target"), "holds no images")
    refused(cli("data", "corrupt", source, source / "inside"), "choose a folder outside")
    (tmp_path / "file").write_text("in the way")
    refused(cli("data", "corrupt", source, tmp_path / "file"), "cannot write to")
    refused(cli("data", "corrupt", source, tmp_path / "file" / "below"), "cannot write to")
    Image.new("RGB", (8, 8)).save(source / "n00/img_0.jpg")
    refused(cli("data", "corrupt", source, tmp_path / "target"), "would both become n00/img_0.JPEG: rename one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "source"]
    assert not (source / "inside").exists()


def refused(result: subprocess.CompletedProcess[str], message: str) -> None:
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


def test_a_target_made_with_other_settings_is_refused(source, tmp_path):
    recipe = Recipe(source, tmp_path / "target", FAST, (1,), size="keep")
    make(recipe)
    before = written(recipe.target)
    with pytest.raises(ValueError, match="made with seed 2024, not 7"):
        prepare(Recipe(source, recipe.target, FAST, (1,), seed=7, size="keep"))
    with pytest.raises(ValueError, match="made with size keep, not 224"):
        prepare(Recipe(source, recipe.target, FAST, (1,)))
    Image.new("RGB", (8, 8)).save(source / "another.png")
    with pytest.raises(ValueError, match="made with images 6, not 7"):
        prepare(recipe)
    (source / "another.png").rename(source / "n00/img_0.png")
    assert written(recipe.target) == before
    (recipe.target / RECORD).unlink()
    with pytest.raises(ValueError, match=r"contrast but no corrupt\.json"):
        prepare(recipe)


@pytest.mark.parametrize(
    ("given", "size"), [((500, 375), 224), ((375, 500), 224), ((40, 300), 224), ((98, 196), 224), ((64, 64), 32)]
)
def test_images_are_resized_and_cropped_as_torchvision_does(tmp_path, given, size):
    import torchvision.transforms as torchvision

    pixels = np.random.RandomState(0).randint(0, 256, size=(given[1], given[0], 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "image.png")
    steps = [torchvision.Resize(round(size * 256 / 224)), torchvision.CenterCrop(size)]
    expected = np.asarray(torchvision.Compose(steps)(Image.fromarray(pixels)))
    assert np.array_equal(read(tmp_path / "image.png", size), expected)


def test_grey_palette_and_transparent_images_become_rgb(tmp_path):
    for mode in ("L", "P", "RGBA", "CMYK", "1"):
        path = tmp_path / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}"
        Image.new(mode, (20, 30)).save(path)
        assert read(path, "keep").shape == (30, 20, 3)
    assert list_images(tmp_path) == ["1.png", "CMYK.jpg", "L.png", "P.png", "RGBA.png"]


def test_no_interpreter_is_started_for_a_file_with_an_images_name(tmp_path, monkeypatch):
    (tmp_path / "x.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")
    started = []
    monkeypatch.setattr("PIL.EpsImagePlugin.Ghostscript", lambda *given: started.append(given))
    with pytest.raises(ValueError, match="not an image"):
        read(tmp_path / "x.jpg", "keep")
    assert not started


@pytest.mark.slow
def test_neither_help_nor_the_workers_import_torch(source, tmp_path):
    code = (
        "import sys, dualtta.data.corrupt, dualtta.processes\n"
        "from dualtta.cli import main\n"
        f"assert main(['data', 'corrupt', {str(source)!r}, {str(tmp_path / 'target')!r}, '--workers', '1',"
        " '--corruptions', 'fog', '--severities', '1', '--size', 'keep']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    code = (
        "import sys\nfrom dualtta.cli.parser import COMMANDS, _parser\n_parser(COMMANDS, 'dualtta')\n"
        "assert not {'torch', 'cv2', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
