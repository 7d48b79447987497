"""State on disk: whole, exact, and refused where it does not belong."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

import dualtta
from dualtta import Method, Selection
from dualtta.testing import run, same, same_step, small_net, small_stream


def test_state_is_one_safetensors_file_with_a_json_header(tmp_path):
    adapter = dualtta.adapt(small_net(), "eata", epsilon=0.9, lr=0.1)
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    with safe_open(tmp_path / "state", "pt") as file:
        header = json.loads(file.metadata()["dualtta"])
        groups = {name.split("/")[0] for name in file.keys()}  # noqa: SIM118
    assert header["kind"] == "dualtta-adapter"
    assert header["made"]["method"] == "eata"
    assert groups == {"weights", "momentum", "memory", "random"}
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]


def test_momentum_goes_on_bit_for_bit_whatever_the_layout_of_a_parameter(tmp_path):
    def fresh():
        return dualtta.adapt(small_net().to(memory_format=torch.channels_last), "tent", parameters=["*"], lr=0.01)

    xs = small_stream()
    whole, first, second = fresh(), fresh(), fresh()
    assert any(not p.is_contiguous() for p in whole.weights.params.values())
    run(whole, xs)
    run(first, xs[:2])
    first.save(tmp_path / "state")
    second.load(tmp_path / "state")
    run(second, xs[2:])
    assert same(second.weights.values(), whole.weights.values())


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (lambda: dualtta.adapt(small_net(), "sar"), "method"),
        (lambda: dualtta.adapt(small_net(), "tent", lr=0.5), "lr="),
        (lambda: dualtta.adapt(wider(), "tent"), "source="),
        (lambda: dualtta.adapt(small_net(), "tent", parameters=["0.1.*"]), "source="),
    ],
)
def test_the_state_of_another_adapter_is_refused(other, says, tmp_path):
    adapter = dualtta.adapt(small_net(), "tent")
    adapter.save(tmp_path / "state")
    there = other()
    before = there.weights.values()
    with pytest.raises(ValueError, match=f"was saved with .*{says}|was saved with {says}"):
        there.load(tmp_path / "state")
    assert same(there.weights.values(), before)


def wider():
    model = small_net()
    model[0][1].weight.data += 1
    return model


def test_files_that_are_no_state_are_refused(tmp_path):
    adapter = dualtta.adapt(small_net(), "tent")
    (tmp_path / "text").write_text("<html>not found</html>")
    with pytest.raises(ValueError, match="is not a readable dualtta-adapter file"):
        adapter.load(tmp_path / "text")
    with pytest.raises(FileNotFoundError):
        adapter.load(tmp_path / "missing")
    from safetensors.torch import save_file

    save_file({"x": torch.zeros(1)}, tmp_path / "weights")
    with pytest.raises(ValueError, match="something else"):
        adapter.load(tmp_path / "weights")
    adapter.save(tmp_path / "cut")
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-100])
    with pytest.raises(ValueError, match="is not a readable"):
        adapter.load(tmp_path / "cut")


def test_a_failed_save_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    adapter = dualtta.adapt(small_net(), "tent")
    adapter.save(tmp_path / "state")
    old = (tmp_path / "state").read_bytes()
    adapter(small_stream()[0])

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        adapter.save(tmp_path / "state")
    assert (tmp_path / "state").read_bytes() == old
    assert list(tmp_path.iterdir()) == [tmp_path / "state"]


def test_state_of_a_model_that_differs_elsewhere_is_refused(tmp_path):
    dualtta.adapt(small_net(seed=0), "tent").save(tmp_path / "state")
    for other in (small_net(seed=1), small_net(classes=20)):
        with pytest.raises(ValueError, match="was saved with source="):
            dualtta.adapt(other, "tent").load(tmp_path / "state")
    with pytest.raises(ValueError, match="was saved with statistics="):
        dualtta.adapt(small_net(seed=0), "tent", statistics="source").load(tmp_path / "state")


@pytest.mark.parametrize("damage", ["nan", "lacking", "shape", "random"])
def test_a_damaged_state_is_refused_whole(tmp_path, damage):
    from dualtta import state

    adapter = dualtta.adapt(small_net(), "tent", lr=0.1)
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    tensors, about = state.read(tmp_path / "state", "dualtta-adapter")
    if damage == "nan":
        tensors["weights/0.1.weight"][0] = torch.nan
    elif damage == "lacking":
        del tensors["weights/0.1.weight"]
    elif damage == "shape":
        tensors["momentum/0.1.weight"] = torch.zeros(3)
    else:
        del tensors["random/state"]
    about = {key: value for key, value in about.items() if key not in ("kind", "version")}
    state.write(tmp_path / "state", "dualtta-adapter", tensors, about)
    before = adapter.weights.values()
    with pytest.raises(ValueError, match="is damaged"):
        adapter.load(tmp_path / "state")
    assert same(adapter.weights.values(), before)


def test_a_state_of_which_any_byte_has_changed_is_refused(tmp_path):
    adapter = dualtta.adapt(small_net(), "sar", lr=0.1, ent0=1.0)
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    whole = (tmp_path / "state").read_bytes()
    weights, memory, counts = adapter.weights.values(), dict(adapter.memory), adapter.steps
    for place in range(8, len(whole), 61):  # header, weights, momentum, memory and random state
        (tmp_path / "state").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"is damaged|is not a|has format"):
            adapter.load(tmp_path / "state")
    assert same(adapter.weights.values(), weights)
    assert same(adapter.memory, memory)
    assert adapter.steps == counts


def test_a_folder_is_no_state(tmp_path):
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        dualtta.adapt(small_net(), "tent").load(tmp_path)


@dataclass(frozen=True, kw_only=True)
class Graded(Method):
    """Its settings are no words and numbers alone."""

    levels: tuple[float, ...] = (0.0, 0.5)
    folder: Path = Path("data")

    def select(self, probe, memory):
        return Selection.of(probe.confidence > self.levels[0], probe.confidence)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "dualtta", "lr": np.float32(1e-3), "momentum": np.float32(0.5)},
        {"method": "dualtta", "tau_sa": np.float32(0.3), "lam": np.int64(1)},
        {"method": "dualtta", "statistics": np.float32(0.5)},
        {"method": Graded},
    ],
)
def test_whatever_settings_an_adapter_takes_it_saves_and_knows_again(settings, tmp_path):
    adapter, other = (dualtta.adapt(small_net("batch"), **settings) for _ in range(2))
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    other.load(tmp_path / "state")
    assert same(other.weights.values(), adapter.weights.values())


def test_buffers_that_a_forward_changes_are_part_of_the_state(tmp_path):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_net()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls += 1
            return self.inner(x) + self.calls

    adapter, other = (dualtta.adapt(Counting(), "tent") for _ in range(2))
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    other.load(tmp_path / "state")
    assert other.model.calls == adapter.model.calls > 0
    adapter.reset()
    assert adapter.model.calls == 0


def test_a_state_without_the_counts_of_later_versions_is_continued(tmp_path):
    from dualtta import state

    adapter = dualtta.adapt(small_net(), "tent", lr=0.1)
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    tensors, about = state.read(tmp_path / "state", "dualtta-adapter")
    former = {"made": about["made"], "counts": about["counts"][:4]}
    state.write(tmp_path / "state", "dualtta-adapter", tensors, former)
    other = dualtta.adapt(small_net(), "tent", lr=0.1)
    other.load(tmp_path / "state")
    assert other.steps == adapter.steps
    assert same(other.weights.values(), adapter.weights.values())


def test_what_a_memory_takes_from_one_batch_twice_is_saved_as_two(tmp_path):
    settings = {"tau_sa": -1.0, "tau_sp": 1.0, "crowd": 9.0, "steady": 9.0}
    adapter, other = (dualtta.adapt(small_net(seed=0), "dualtta_safe", **settings) for _ in range(2))
    assert adapter.step(small_stream()[0]).updated
    adapter.save(tmp_path / "state")
    other.load(tmp_path / "state")
    assert other.memory.keys() == adapter.memory.keys()


@pytest.mark.parametrize("grown", [False, True])
def test_buffers_that_a_forward_replaces_are_part_of_the_state(grown, tmp_path):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_net()
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls = torch.cat([self.calls, self.calls[-1:] + 1]) if grown else self.calls + 1
            return self.inner(x) + self.calls[-1]

    adapter, other = (dualtta.adapt(Counting(), "tent") for _ in range(2))
    run(adapter, small_stream())
    adapter.save(tmp_path / "state")
    other.load(tmp_path / "state")
    assert torch.equal(other.model.calls, adapter.model.calls)
    assert adapter.model.calls[-1] > 0
    assert torch.equal(other(small_stream()[0]), adapter(small_stream()[0]))
    adapter.reset()
    assert torch.equal(adapter.model.calls, torch.zeros(1))


def test_a_buffer_that_a_forward_makes_of_the_input_is_put_back_without_touching_the_input():
    class Keeping(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = small_net()
            self.register_buffer("last", torch.zeros(16, 3, 16, 16))

        def forward(self, x):
            self.last = x
            return self.inner(x)

    adapter, x = dualtta.adapt(Keeping(), "tent"), small_stream()[0]
    before = x.clone()
    adapter(x)
    adapter(x)
    adapter.reset()
    assert torch.equal(x, before)
    assert not adapter.model.last.any()


@pytest.mark.parametrize("method", ["eata", "dualtta_safe"])
def test_what_is_loaded_under_inference_mode_is_adapted_on(method, tmp_path):
    model, xs = small_net(), small_stream()
    settings = {
        "eata": {"epsilon": 0.9},
        "dualtta_safe": {"guard": False, "tau_sa": -1.0, "tau_sp": 1.0, "crowd": 9.0, "steady": 9.0},
    }[method]
    if method == "eata":
        with torch.inference_mode():
            settings["fisher"] = dualtta.estimate_fisher(model, xs, origin="these", progress=False)
            settings["fisher"].save(tmp_path / "fisher")
            settings["fisher"] = dualtta.Fisher.load(tmp_path / "fisher")
    adapter, other = (dualtta.adapt(model, method, lr=1e-3, **settings) for _ in range(2))
    run(adapter, xs)
    adapter.save(tmp_path / "state")
    with torch.inference_mode():
        other.load(tmp_path / "state")
    assert all(map(same_step, run(other, xs), run(adapter, xs)))
    with torch.inference_mode():
        other.reset()
    assert other.step(xs[0]).updated


def test_a_state_saved_to_a_device_leaves_it_a_device(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # nobody waits: a pipe holds more than this state
    dualtta.adapt(small_net(), "tent").save(pipe)
    (tmp_path / "state").write_bytes(os.read(end, 2**16))
    os.close(end)
    assert pipe.is_fifo()
    dualtta.adapt(small_net(), "tent").load(tmp_path / "state")
