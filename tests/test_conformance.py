"""Golden vectors: the shared ones where they are available, and the comparison itself on vectors recorded here."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import dualtta
from dualtta.conformance import check_folder
from dualtta.conformance.methods import compare_floats
from dualtta.conformance.nets import build_net, to_input

SHARED = Path(__file__).parents[2] / "shared" / "conformance"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=f"no golden vectors at {SHARED}")


def cases() -> list[str]:
    return [case["name"] for case in json.loads((SHARED / "methods" / "cases.json").read_text())] if SHARED.is_dir() else []


@pytest.fixture(scope="module")
def verdicts():
    return {verdict["case"]: verdict for verdict in check_folder(SHARED)}


@needs_shared
@pytest.mark.parametrize("case", cases())
def test_golden_vectors_of_the_methods_agree(verdicts, case):
    assert verdicts[case]["ok"], verdicts[case]["why"]
    assert verdicts[case]["worst"] < 1e-12


def weights(step):
    """alpha and beta of all samples, by the paper's equations with the settings of the case below."""
    log_p = step.logits.log_softmax(1)
    beta = (0.4 * np.log(10) + (log_p.exp() * log_p).sum(1)).exp()
    return beta + step.drops["alter"].exp() + (0.7 - step.drops["preserve"]).exp(), beta


@pytest.fixture
def folder(tmp_path):
    """A folder of the published form with one ViT case, recorded from this package."""
    torch.manual_seed(0)
    from timm.models.vision_transformer import VisionTransformer

    net = VisionTransformer(img_size=32, patch_size=8, embed_dim=48, depth=4, num_heads=3, num_classes=10)
    torch.nn.init.normal_(net.head.weight, std=1.0)
    methods = tmp_path / "methods"
    methods.mkdir()
    np.savez(methods / "net_vit.npz", **{name: value.numpy() for name, value in net.state_dict().items()})
    case = {"name": "dual_vit", "net": "vit", "method": "dualtta", "momentum": 0.9, "lr": 0.01, "layer": "blocks.1"}
    case |= {"tau_sa": 0.0, "tau_sp": 0.0, "diff0": 0.7, "ent0": 0.4, "lam": 0.5, "reduction": "mean"}
    images = np.random.RandomState(0).randint(0, 256, (3, 8, 32, 32, 3), dtype=np.uint8)
    setting = {key: case[key] for key in ("tau_sa", "tau_sp", "diff0", "ent0", "lam", "reduction")}
    adapter = dualtta.adapt(net.double(), "dualtta", lr=0.01, layer="blocks.1", **setting)
    steps = [adapter.step(to_input(batch)) for batch in images]
    arrays = {
        "images": images,
        "logits": [s.logits for s in steps],
        "plus": [s.plus for s in steps],
        "minus": [s.minus for s in steps],
        "diff_sa": [s.drops["alter"] for s in steps],
        "diff_sp": [s.drops["preserve"] for s in steps],
        "alpha": [weights(s)[0] for s in steps],
        "beta": [weights(s)[1] for s in steps],
        "loss": [s.loss for s in steps],
        "patch_keys": [s.draws["alter"][0] for s in steps],
        "eps_mu": [s.draws["preserve"][0] for s in steps],
        "eps_sigma": [s.draws["preserve"][1] for s in steps],
        **{f"after/{name}": value.detach() for name, value in adapter.weights.params.items()},
    }
    arrays = {key: np.stack([np.asarray(v) for v in value]) for key, value in arrays.items()}
    assert any(s.updated for s in steps)
    np.savez(methods / "dual_vit.npz", **arrays)
    (methods / "cases.json").write_text(json.dumps([case]))
    return tmp_path


def change(folder, key, edit):
    path = folder / "methods" / "dual_vit.npz"
    with np.load(path) as file:
        arrays = dict(file)
    arrays[key] = edit(arrays[key].copy())
    np.savez(path, **arrays)


def rewrite(folder, edit):
    """Replace all arrays by what `edit` returns for them."""
    path = folder / "methods" / "dual_vit.npz"
    with np.load(path) as file:
        arrays = edit(dict(file))
    np.savez(path, **arrays)


def test_vectors_of_a_token_net_replay(folder):
    (verdict,) = check_folder(folder)
    assert verdict["ok"], verdict["why"]
    assert verdict["worst"] < 1e-12


def flip(array):
    array[0, 0] = ~array[0, 0]
    return array


def hide(array):
    array[1, 2] = np.nan
    return array


@pytest.mark.parametrize(
    ("key", "edit", "says"),
    [
        ("logits", lambda a: a + 1e-5, "logits is off by 1.0e-05"),
        ("loss", lambda a: a + 1e-7, "loss is off"),
        ("diff_sa", lambda a: a - 1e-7, "diff_sa is off"),
        ("diff_sp", hide, "diff_sp has NaN at other positions"),
        ("plus", flip, "plus differs for 1 samples"),
        ("minus", flip, "minus differs for 1 samples"),
        ("after/blocks.0.norm1.weight", lambda a: a + 1e-7, "after/blocks.0.norm1.weight is off"),
        ("eps_mu", lambda a: a + 0.1, "off"),
    ],
)
def test_a_vector_that_is_off_is_reported_with_the_reason(folder, key, edit, says):
    change(folder, key, edit)
    (verdict,) = check_folder(folder)
    assert not verdict["ok"]
    assert says in verdict["why"]


@pytest.mark.parametrize(("key", "part"), [("alpha", "plus"), ("beta", "minus")])
def test_weights_of_samples_that_are_not_selected_are_compared_too(folder, key, part):
    rewrite(folder, lambda arrays: arrays | {key: arrays[key] + 1e-7 * ~arrays[part]})
    (verdict,) = check_folder(folder)
    assert f"{key} is off" in verdict["why"]


@pytest.mark.parametrize("key", ["images", "logits", "plus", "minus", "diff_sa", "diff_sp", "after/"])
def test_a_case_with_a_part_missing_is_reported_not_passed(folder, key):
    rewrite(folder, lambda arrays: {name: value for name, value in arrays.items() if not name.startswith(key)})
    (verdict,) = check_folder(folder)
    assert not verdict["ok"]
    assert f"there is no '{key}" in verdict["why"]


@pytest.mark.parametrize("edit", [lambda a: a[..., :1], lambda a: a.repeat(2, axis=0), lambda a: a[:1], lambda a: a[:0]])
@pytest.mark.parametrize("key", ["images", "minus"])
def test_arrays_of_another_length_than_the_stream_are_reported_not_passed(folder, key, edit):
    change(folder, key, edit)
    (verdict,) = check_folder(folder)
    assert not verdict["ok"]


def test_a_case_without_a_stream_is_reported_not_passed(folder):
    rewrite(folder, lambda arrays: {k: v if k.startswith("after/") else v[:0] for k, v in arrays.items()})
    (verdict,) = check_folder(folder)
    assert "the stream is empty" in verdict["why"]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ({"method": "memo"}, "not implemented: the method 'memo'"),
        ({"net": "mlp"}, "there is no file net_mlp.npz"),
        ({"tau": 1}, "no setting 'tau'"),
        ({"name": "other"}, "there is no file other.npz"),
        ({"name": 5}, "there is no file 5.npz"),
        ({"lr": "fast"}, "lr must be a number"),
        ({"method": ["tent"]}, "not implemented"),
        ({"view": ["patch"]}, "there is no view"),
        ({"layer": 3}, "layer must be"),
    ],
)
def test_cases_that_cannot_run_are_reported_not_passed(folder, edit, says):
    listing = folder / "methods" / "cases.json"
    listing.write_text(json.dumps([json.loads(listing.read_text())[0] | edit]))
    (verdict,) = check_folder(folder)
    assert not verdict["ok"]
    assert verdict["worst"] is None
    assert says in verdict["why"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:200] + bytes(200) + data[400:],
        lambda data: b"<html>",
    ],
)
def test_a_damaged_file_fails_only_its_own_case(folder, damage):
    methods = folder / "methods"
    (case,) = json.loads((methods / "cases.json").read_text())
    (methods / "cases.json").write_text(json.dumps([{**case, "name": "damaged"}, case]))
    (methods / "damaged.npz").write_bytes(damage((methods / "dual_vit.npz").read_bytes()))
    damaged, whole = check_folder(folder)
    assert whole["ok"]
    assert not damaged["ok"]
    assert "cannot be replayed" in damaged["why"]


def test_a_file_that_is_no_array_is_refused(folder):
    np.save(folder / "methods" / "plain.npy", np.zeros(3))
    (folder / "methods" / "plain.npy").rename(folder / "methods" / "dual_vit.npz")
    (verdict,) = check_folder(folder)
    assert "is no npz file" in verdict["why"]


@pytest.mark.parametrize("listing", ['{"cases": 3}', "{}", "", "[1]"])
def test_a_listing_that_is_no_listing_is_refused(folder, listing):
    (folder / "methods" / "cases.json").write_text(listing)
    with pytest.raises(ValueError, match="not a list of cases"):
        check_folder(folder)


def test_the_command_exits_by_the_verdict(folder, cli):
    good = cli("conformance", folder, "--json")
    assert good.returncode == 0
    assert [set(verdict) for verdict in json.loads(good.stdout)] == [{"case", "ok", "worst", "why"}]
    assert "1 of 1 ok" in cli("conformance", folder).stdout
    change(folder, "logits", lambda a: a + 1)
    assert cli("conformance", folder).returncode == 1


def test_missing_drops_are_excused_only_where_shortcuts_are():
    ours, golden = np.array([np.nan, 1.0]), np.array([0.5, 1.0])
    assert compare_floats("diff", ours, golden, 1e-8, may_lack=True).why == ""
    assert compare_floats("diff", ours, golden, 1e-8).why
    assert compare_floats("diff", golden, ours, 1e-8, may_lack=True).why
    assert compare_floats("diff", golden[:1], golden, 1e-8).why


def test_nets_are_sized_by_their_weights():
    with pytest.raises(ValueError, match="no net 'mlp'"):
        build_net("mlp", {})
