"""Batches and augmentations."""

import numpy as np
import torch
from PIL import Image

from dualtta.data import Preprocess
from dualtta.data.datasets.base import ArrayDataset
from dualtta.train.images import Images, crop_flip, zoom_flip


def test_every_epoch_has_each_image_once_in_a_new_order():
    images = np.arange(33, dtype=np.uint8)[:, None, None, None] + np.zeros((33, 8, 8, 3), np.uint8)
    data = Images.of(ArrayDataset(images, np.zeros(33), ["a", "b"]), Preprocess(size=None))
    orders = [np.concatenate([rows for rows, _ in data.epoch(16, 0, epoch)]) for epoch in (1, 2, 1)]
    assert len(orders[0]) == 32  # the remainder of one image sits out
    assert len(set(orders[0])) == 32
    assert (orders[0] == orders[2]).all()
    assert (orders[0] != orders[1]).any()
    for rows, pixels in data.epoch(16, 0, 1):
        assert (pixels[:, 0, 0, 0].numpy() == rows).all()


def test_crop_flip_shifts_by_up_to_four_and_mirrors():
    x = torch.randint(1, 255, (200, 3, 9, 7), dtype=torch.uint8)
    draws = np.random.default_rng(0).random((200, 5))
    y = crop_flip(x, draws)
    assert y.shape == x.shape
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4))
    for i in range(200):
        down, right = int(draws[i, 0] * 9), int(draws[i, 1] * 9)
        part = padded[i, :, down : down + 9, right : right + 7]
        assert torch.equal(y[i], part.flip(2) if draws[i, 2] < 0.5 else part)


def test_zoom_flip_shows_a_part_as_pillow_would():
    rng = np.random.default_rng(0)
    smooth = np.cumsum(np.cumsum(rng.normal(size=(6, 3, 40, 40)), 2), 3)
    smooth = (255 * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.uint8)
    draws = rng.random((6, 5))
    found = zoom_flip(torch.from_numpy(smooth), draws)
    for picture, u, mine in zip(smooth, draws, found, strict=True):
        area, ratio = 0.6 + 0.4 * u[0], np.exp(np.log(3 / 4) + u[1] * np.log(16 / 9))
        wide, high = 40 * min(1, np.sqrt(area * ratio)), 40 * min(1, np.sqrt(area / ratio))
        left, top = u[2] * (40 - wide), u[3] * (40 - high)
        image = Image.fromarray(picture.transpose(1, 2, 0))
        theirs = np.array(image.resize((40, 40), Image.Resampling.BILINEAR, box=(left, top, left + wide, top + high)))
        theirs = theirs[:, ::-1] if u[4] < 0.5 else theirs
        # at its edges pillow sees the box alone
        inner = np.abs(mine.permute(1, 2, 0).numpy().astype(int) - theirs.astype(int))[2:-2, 2:-2]
        assert inner.max() <= 3
        assert inner.mean() < 0.7
