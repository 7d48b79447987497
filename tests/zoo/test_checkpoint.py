"""Weights are read from every accepted kind of file; other files are rejected with the reason."""

import pickle
import zipfile

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from dualtta.zoo.checkpoint import read_weights
from dualtta.zoo.registry import open_model


def test_weights_come_from_every_accepted_kind_of_file(tmp_path, tiny):
    state = tiny().state_dict()
    save_file(state, tmp_path / "plain.safetensors")
    torch.save(state, tmp_path / "plain.pt")
    torch.save(state, tmp_path / "legacy.pth", _use_new_zipfile_serialization=False)
    prefixed = {f"_orig_mod.module._orig_mod.{name}": value for name, value in state.items()}
    torch.save({"state_dict": prefixed, "epoch": 3, "lr": 0.1}, tmp_path / "nested.pth")
    torch.save(
        {"model": {name: nn.Parameter(v) if v.is_floating_point() else v for name, v in state.items()}}, tmp_path / "p.pt"
    )
    for path in sorted(tmp_path.iterdir()):
        loaded, _ = open_model("resnet_tiny", None, path)
        for name, value in loaded.state_dict().items():
            assert torch.equal(value, state[name]), path.name


class Custom(nn.Linear):
    """A module of somebody's own program."""


@pytest.fixture
def rejected(tmp_path, tiny):
    """Files without weights, and the reason for which each is rejected."""
    torch.save(Custom(2, 2), tmp_path / "module.pt")
    (tmp_path / "page.pth").write_bytes(b"<!DOCTYPE html><html>Sign in</html>")
    (tmp_path / "empty.pt").write_bytes(b"")
    (tmp_path / "lfs.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    whole = tmp_path / "whole.safetensors"
    save_file(tiny().state_dict(), whole)
    (tmp_path / "cut.safetensors").write_bytes(whole.read_bytes()[:-100])
    torch.save(tiny().state_dict(), tmp_path / "whole.pt")
    (tmp_path / "cut.pt").write_bytes((tmp_path / "whole.pt").read_bytes()[:-1000])
    with zipfile.ZipFile(tmp_path / "archive.pt", "w") as archive:
        archive.writestr("photos/cat.txt", "cat")
    torch.save({"epoch": 3}, tmp_path / "numbers.pt")
    endless = {}
    endless["model"] = endless
    torch.save(endless, tmp_path / "endless.pt")
    torch.save({"fc.weight": torch.eye(3, device="meta")}, tmp_path / "meta.pt")
    torch.save({"fc.weight": torch.eye(3, dtype=torch.complex64)}, tmp_path / "complex.pt")
    torch.save([torch.zeros(1)], tmp_path / "list.pt")
    return {
        "module.pt": "contains code",
        "page.pth": "an HTML page",
        "empty.pt": "an empty file",
        "lfs.safetensors": "a Git LFS pointer",
        "cut.safetensors": "damaged or truncated",
        "cut.pt": "damaged or truncated",
        "archive.pt": "a zip archive of something else",
        "numbers.pt": "holds no state dict but epoch",
        "endless.pt": "holds no state dict but model",
        "meta.pt": r"fc\.weight is .* without values",
        "complex.pt": r"fc\.weight is .*complex",
        "list.pt": "holds no state dict but list",
        "missing.pt": "there is no weights file",
    }


def test_other_files_are_rejected_with_the_reason(tmp_path, rejected):
    for name, says in rejected.items():
        with pytest.raises(ValueError, match=says) as error:
            read_weights(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("always")
def test_a_plain_pickle_is_refused_without_a_warning_before_it(tmp_path, recwarn, tiny):
    (tmp_path / "plain.pkl").write_bytes(pickle.dumps(dict(tiny().state_dict())))
    with pytest.raises(ValueError, match="neither a safetensors file nor one of torch's"):
        read_weights(tmp_path / "plain.pkl")
    assert not recwarn.list


@pytest.mark.filterwarnings("ignore")  # torch's own, about how these are made
def test_programs_are_refused_because_they_cannot_adapt(tmp_path, tiny):
    net, x = tiny().eval(), torch.zeros(2, 3, 28, 28)
    torch.jit.save(torch.jit.trace(net, x), tmp_path / "script.pt")
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "program.pt2")
    with pytest.raises(ValueError, match=r"a TorchScript program; its norm layers cannot be adapted"):
        read_weights(tmp_path / "script.pt")
    with pytest.raises(ValueError, match=r"an exported program \(\.pt2\); its norm layers cannot be adapted"):
        read_weights(tmp_path / "program.pt2")
