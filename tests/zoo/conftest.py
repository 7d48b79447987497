"""A small model whose weights the tests save and load."""

import pytest
import torch

from dualtta.zoo.registry import MODELS


@pytest.fixture(scope="session")
def tiny():
    """A `resnet_tiny` of so many classes; the same weights in every call."""

    def build(classes=10):
        torch.manual_seed(0)
        return MODELS["resnet_tiny"].build(classes)

    return build
