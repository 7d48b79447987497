"""The corruptions: golden vectors, reproducible draws, every shape, growing damage."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import RandomState
from scipy.ndimage import gaussian_filter, map_coordinates, zoom

from dualtta.conformance.corruptions import check
from dualtta.data.corruptions import CORRUPTIONS, SEVERITIES, FrostSource, corrupt, find_frost, rng_for
from dualtta.data.corruptions.blur import scatter, zoomed
from dualtta.data.corruptions.digital import field, sample
from dualtta.data.corruptions.severities import CIFAR, IMAGENET, table_for
from dualtta.data.corruptions.textures import NAMES, drawn, from_folder

SHARED = Path(__file__).parents[3] / "shared" / "conformance"
needs_shared = pytest.mark.skipif(not (SHARED / "corruptions.npz").exists(), reason=f"no golden vectors at {SHARED}")


def scene(height: int, width: int) -> np.ndarray:
    """An image with edges, gradients and texture, which every corruption changes."""
    rows, columns = np.mgrid[:height, :width]
    waves = [np.sin(rows / 3 + phase) * np.cos(columns / (4 + phase)) for phase in range(3)]
    blocks = ((rows * 5 // height + columns * 5 // width) % 2) * 60
    return np.clip(np.stack(waves, axis=2) * 50 + blocks[..., None] + 90, 0, 255).astype(np.uint8)


def draw(image: np.ndarray, name: str, severity: int, index: int = 0, **options: object) -> np.ndarray:
    return corrupt(image, name, severity, rng_for(0, name, severity, index), frost=drawn(), **options)


@pytest.fixture(scope="module")
def verdicts():
    return check(SHARED)


@needs_shared
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_golden_vectors_of_the_corruptions_agree(verdicts, name):
    mine = [verdict for verdict in verdicts if verdict.case.startswith(f"corruptions/{name}_")]
    assert len(mine) == 10
    assert [verdict for verdict in mine if not verdict.ok] == []


@needs_shared
def test_a_wrong_array_fails(tmp_path):
    with np.load(SHARED / "corruptions.npz") as file:
        arrays = {key: file[key] for key in ("seed", "input_32", "fog_32_3", "snow_32_1", "impulse_noise_32_5")}
    arrays["fog_32_3"] = np.clip(arrays["fog_32_3"].astype(int) + 3 * (np.arange(32) == 7)[:, None], 0, 255).astype(np.uint8)
    arrays["snow_32_1"] = arrays["snow_32_1"] // 2
    arrays["impulse_noise_32_5"] = arrays["input_32"]
    arrays["frost_32_1"] = arrays["mist_32_1"] = arrays["fog_99_1"] = arrays["odd"] = arrays["input_32"]
    np.savez(tmp_path / "corruptions.npz", **arrays)
    found = {verdict.case.removeprefix("corruptions/"): verdict for verdict in check(tmp_path)}
    assert not any(verdict.ok for verdict in found.values())
    assert "off by up to 3 grey levels" in found["fog_32_3"].why
    assert "on average" in found["snow_32_1"].why
    assert "share of changed values" in found["impulse_noise_32_5"].why
    assert "frost1.png" in found["frost_32_1"].why
    assert "not implemented" in found["mist_32_1"].why
    assert "input_99" in found["fog_99_1"].why
    assert "odd" in found["odd"].why


@pytest.mark.parametrize("name", ["fog", "impulse_noise"])
def test_an_array_without_bytes_is_not_passed(tmp_path, name):
    image = scene(32, 32)[None]
    np.savez(tmp_path / "corruptions.npz", seed=0, input_32=image, **{f"{name}_32_1": np.full(image.shape, np.nan)})
    (verdict,) = check(tmp_path)
    assert not verdict.ok
    assert "not bytes" in verdict.why


@pytest.mark.parametrize("content", [b"", b"not an archive", b"PK\x03\x04 cut off"])
def test_a_damaged_file_of_vectors_is_a_verdict_not_a_traceback(tmp_path, content):
    assert check(tmp_path) == []
    (tmp_path / "corruptions.npz").write_bytes(content)
    (verdict,) = check(tmp_path)
    assert not verdict.ok
    assert "cannot be read" in verdict.why


@pytest.mark.parametrize("name", CORRUPTIONS)
@pytest.mark.parametrize("shape", [(32, 32, 3), (224, 224, 3), (37, 50, 3), (50, 37), (224, 160, 1), (2, 5, 3), (1, 1, 3)])
def test_every_corruption_keeps_type_and_shape(name, shape):
    image = scene(*shape[:2])
    image = image if shape[2:] == (3,) else image[..., 0].reshape(shape)
    for severity in SEVERITIES:
        before = image.copy()
        result = draw(image, name, severity)
        assert result.dtype == np.uint8
        assert result.shape == shape
        assert np.array_equal(image, before), "the caller's image changed"


def test_fog_over_a_very_long_image_repeats_its_cloud():
    strip = np.full((2, 5000), 100, np.uint8)
    result = draw(strip, "fog", 5)
    assert np.array_equal(result[:, :2048], result[:, 2048:4096])
    assert len(np.unique(result)) > 5


@pytest.mark.parametrize("size", [32, 224])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_damage_grows_with_severity(name, size):
    image = scene(size, size)
    damage = [np.mean([np.abs(draw(image, name, s, k).astype(int) - image).mean() for k in range(4)]) for s in SEVERITIES]
    assert damage[0] > 0
    if name != "elastic_transform":  # its severities go from a wide bend to a fine tremble
        assert damage[4] > damage[0]


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_an_image_does_not_depend_on_those_before_it(name):
    image = scene(40, 40)
    alone = draw(image, name, 3, index=17)
    for index in range(3):
        draw(image, name, 5, index)
    np.random.seed(1)  # noqa: NPY002 (the global generator must not matter)
    assert np.array_equal(draw(image, name, 3, index=17), alone)


@given(st.integers(0, 2**32 - 1), st.sampled_from(sorted(CORRUPTIONS)), st.sampled_from(SEVERITIES), st.integers(0, 2**31))
def test_each_part_of_the_key_changes_the_draws(seed, name, severity, index):
    def first(*key: object) -> list[float]:
        return list(rng_for(*key).random_sample(4))

    other = "fog" if name != "fog" else "snow"
    mine = first(seed, name, severity, index)
    assert mine == first(seed, name, severity, index)
    for key in ((seed ^ 1, name, severity, index), (seed, other, severity, index), (seed, name, severity, index + 1)):
        assert mine != first(*key)
    assert mine != first(seed, name, severity % 5 + 1, index)


@pytest.mark.parametrize(("reach", "height", "width"), [(1, 32, 32), (2, 20, 33), (4, 40, 25), (4, 9, 9), (4, 8, 30)])
def test_scattering_at_once_equals_scattering_pixel_by_pixel(reach, height, width):
    image = RandomState(0).randint(0, 256, size=(height, width, 3)).astype(np.uint8)
    fast, slow, rng = scatter(image, RandomState(3), reach), image.copy(), RandomState(3)
    for row in range(height - reach, reach, -1):
        for column in range(width - reach, reach, -1):
            along, down = rng.randint(-reach, reach, size=2)
            slow[row, column] = slow[row + down, column + along]
    assert np.array_equal(fast, slow)
    assert (height <= 2 * reach) == np.array_equal(fast, image)


@given(st.integers(2, 60), st.integers(2, 60), st.floats(0, 40))
@settings(deadline=None)
def test_the_smooth_field_is_a_gaussian_on_mirrored_borders(height, width, sigma):
    noise = RandomState(5).uniform(-1, 1, size=(height, width))
    expected = gaussian_filter(noise, sigma, mode="reflect", truncate=3) if 3 * sigma >= 0.5 else noise
    assert np.allclose(field(height, width, sigma, RandomState(5)), expected, atol=1e-12)


@pytest.mark.parametrize(("edge_twice", "mode"), [(True, "reflect"), (False, "mirror")])
def test_sampling_is_linear_and_mirrors_the_border(edge_twice, mode):
    image = RandomState(0).random_sample((12, 17, 3)).astype(np.float32)
    rows, columns = RandomState(1).uniform(-30, 40, size=(2, 12, 17))
    expected = [map_coordinates(image[..., c], [rows, columns], order=1, mode=mode) for c in range(3)]
    assert np.allclose(sample(image, rows, columns, edge_twice), np.stack(expected, axis=2), atol=1e-5)


@pytest.mark.parametrize("factor", [1, 1.01, 1.25, 1.75, 2.5, 4.5])
@pytest.mark.parametrize("size", [32, 61, 224])
def test_zooming_enlarges_the_centre_with_aligned_corners(size, factor):
    image = RandomState(0).random_sample((size, size, 1))
    middle = int(np.ceil(size / factor))
    start = (size - middle) // 2
    grown = zoom(image[start : start + middle, start : start + middle, 0], factor, order=1)
    trim = (len(grown) - size) // 2
    expected = grown[trim : trim + size, trim : trim + size]
    assert np.allclose(zoomed(image, factor)[..., 0], expected, atol=1e-12)


def test_both_tables_have_five_severities_and_the_size_selects_one():
    for table in (IMAGENET, CIFAR):
        assert list(table) == list(CORRUPTIONS)
        assert all(len(levels) == 5 for levels in table.values())
    assert [table_for(*size) for size in ((32, 32), (64, 64), (84, 500), (85, 85), (224, 224))] == [
        *["cifar"] * 3,
        *["imagenet"] * 2,
    ]
    image = scene(32, 32)
    assert not np.array_equal(draw(image, "contrast", 3), draw(image, "contrast", 3, table="imagenet"))


def test_frost_reports_the_origin_of_its_textures(tmp_path, monkeypatch):
    monkeypatch.setattr("dualtta.data.corruptions.textures.PACKAGES", ())
    assert find_frost().origin == "drawn"
    assert np.array_equal(drawn().textures[0], FrostSource("again", drawn.__wrapped__().textures).textures[0])
    package = tmp_path / "icy"
    write_textures(package / "frost")
    (package / "__init__.py").write_text("raise RuntimeError('the code of a package must not run')")
    monkeypatch.setattr("dualtta.data.corruptions.textures.PACKAGES", ("not_there", "icy"))
    monkeypatch.syspath_prepend(tmp_path)
    assert find_frost().origin == "package icy"
    assert find_frost(package / "frost").origin == "folder"


def test_frost_of_one_colour_is_added_to_the_image(tmp_path):
    source = from_folder(write_textures(tmp_path / "frost"))
    result = corrupt(np.full((32, 32, 3), 100, np.uint8), "frost", 3, RandomState(0), frost=source)
    assert (result == np.array([0.9 * 100 + 0.4 * part for part in (200, 150, 50)]).astype(int)).all()


def test_a_missing_texture_is_named(tmp_path):
    folder = write_textures(tmp_path / "frost")
    (folder / "frost3.png").write_bytes(b"not a picture")
    with pytest.raises(ValueError, match=r"frost3\.png is not a readable image"):
        from_folder(folder)
    (folder / "frost3.png").unlink()
    with pytest.raises(ValueError, match=r"lacks frost3\.png"):
        from_folder(folder)


def write_textures(folder: Path) -> Path:
    from PIL import Image

    folder.mkdir(parents=True)
    for name in NAMES:
        Image.new("RGB", (300, 260), (200, 150, 50)).save(folder / name, format="PNG")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((scene(8, 8), "gausian_noise", 1), "did you mean gaussian_noise"),
        ((scene(8, 8), "xyz", 1), "there are gaussian_noise, shot_noise"),
        ((scene(8, 8), "fog", 0), "no severity 0"),
        ((scene(8, 8), "fog", 6), "take 1 to 5"),
        ((scene(8, 8) / 255, "fog", 1), "not float64"),
        ((np.zeros((8, 8, 4), np.uint8), "fog", 1), r"\(8, 8, 4\): convert it first"),
        ((np.zeros((0, 8, 3), np.uint8), "fog", 1), r"\(0, 8, 3\)"),
    ],
)
def test_bad_arguments_are_named_with_valid_ones(arguments, message):
    with pytest.raises(ValueError, match=message):
        corrupt(*arguments, RandomState(0))
    with pytest.raises(ValueError, match="take imagenet or cifar"):
        corrupt(scene(8, 8), "fog", 1, RandomState(0), table="mnist")
