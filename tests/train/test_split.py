"""Training and validation images never overlap, and `limit` applies to both."""

from PIL import Image

from dualtta.train.recipes import Recipe
from dualtta.train.split import split_source


def test_held_out_images_are_never_trained_on_and_a_limit_is_kept(squares, quick):
    split = split_source("folder", squares, {"domains": ["night"]}, quick().recipe, seed=1, limit=20)
    assert (len(split.train), len(split.validation)) == (16, 4)
    assert not {split.train.where(i) for i in range(16)} & {split.validation.where(i) for i in range(4)}
    again = split_source("folder", squares, {"domains": ["night"]}, quick().recipe, seed=1, limit=20)
    assert [again.train.where(i) for i in range(16)] == [split.train.where(i) for i in range(16)]
    assert all("night" in split.train.where(i) for i in range(16))


def test_a_limit_draws_the_validation_images_too(tmp_path):
    with (tmp_path / "metadata.csv").open("w") as table:
        table.write("img_id,img_filename,y,split,place,place_filename\n")
        for number in range(120):
            y, split, place = number // 20 % 2, number // 40, number // 10 % 2  # land birds first in every split
            table.write(f"{number},{number}.png,{y},{split},{place},none\n")
            Image.new("RGB", (8, 8)).save(tmp_path / f"{number}.png")
    recipe = Recipe(validation="val")
    some = split_source("waterbirds", tmp_path, None, recipe, seed=1, limit=20).validation
    assert len(some) == 20
    assert set(some.labels) == {0, 1}
    whole = split_source("waterbirds", tmp_path, None, recipe, seed=1).validation
    assert [whole.where(i) for i in range(40)] == [whole.base.where(i) for i in range(40)]
