"""Pretrained weights come from the hub or its local cache."""

import time

import pytest
import timm
import torch
from safetensors.torch import save_file

from dualtta.zoo.registry import open_model


def test_without_a_network_pretrained_weights_are_an_error_within_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")  # no server
    for offline, says in ((True, "HF_HUB_OFFLINE is set"), (False, "127.0.0.1:9 cannot be reached")):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        began = time.monotonic()
        with pytest.raises(ValueError, match=rf"resnet50\.tv_in1k is not in the local cache, and .*{says}"):
            open_model("resnet50", 1000, "pretrained")
        assert time.monotonic() - began < 10
    began = time.monotonic()
    with pytest.raises(ValueError, match="there are no pretrained weights of resnet_tiny"):
        open_model("resnet_tiny", 10, "pretrained")
    assert time.monotonic() - began < 5


def test_published_weights_are_loaded_through_timm_and_may_get_a_new_head(tmp_path, monkeypatch):
    torch.manual_seed(1)
    published = timm.create_model("test_vit.r160_in1k").state_dict()
    save_file(published, tmp_path / "model.safetensors")
    requests = []

    def fetch(repository, file):
        requests.append((repository, file))
        return str(tmp_path / file)

    monkeypatch.setattr("dualtta.zoo.hub.fetch", fetch)
    model, _ = open_model("timm:test_vit", 1000, "pretrained")
    assert requests == [("timm/test_vit.r160_in1k", "model.safetensors")]
    assert all(torch.equal(value, published[name]) for name, value in model.state_dict().items())
    fewer, _ = open_model("timm:test_vit", 3, "pretrained", new_head=True)
    assert fewer.head.out_features == 3
    assert torch.equal(fewer.patch_embed.proj.weight, published["patch_embed.proj.weight"])
