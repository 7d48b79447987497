"""EATA's Fisher importance: right, cached, declared, refused where it does not belong."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import dualtta
from dualtta.testing import run, small_net, small_stream

ORIGIN = "random images of the tests"


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_it_is_the_mean_squared_gradient_against_the_models_own_predictions(norm):
    model, batches = small_net(norm), small_stream()
    fisher = dualtta.estimate_fisher(model, batches, origin=ORIGIN, progress=False)
    model.eval()
    for module in model.modules():
        module.training = isinstance(module, nn.BatchNorm2d)
    squares = []
    for x in batches:
        logits = model(x)
        model.zero_grad()
        cross_entropy(logits, logits.argmax(1)).backward()
        squares.append({name: model.get_parameter(name).grad.square() for name in fisher.values})
    for name, value in fisher.values.items():
        torch.testing.assert_close(value, torch.stack([s[name] for s in squares]).mean(0))
    assert (fisher.origin, fisher.samples) == (ORIGIN, 64)


def test_it_pulls_towards_the_source():
    model, xs = small_net(), small_stream(10)
    fisher = dualtta.estimate_fisher(model, xs, origin=ORIGIN, progress=False)

    def drift(**options):
        adapter = dualtta.adapt(model, "eata", lr=0.01, epsilon=1.0, **options)
        run(adapter, xs)
        return sum((p - adapter.weights.source[n]).square().sum() for n, p in adapter.weights.params.items()).item()

    assert drift(fisher=fisher, fisher_alpha=300.0) < 0.9 * drift()
    assert drift(fisher=fisher, fisher_alpha=0.0) == drift()


def test_the_loss_reports_the_fisher_term_where_nobody_is_selected():
    model, xs = small_net(), small_stream()
    fisher = dualtta.estimate_fisher(model, xs, origin=ORIGIN, progress=False)
    adapter = dualtta.adapt(model, "eata", lr=0.01, epsilon=0.0, fisher=fisher)
    steps = run(adapter, xs)  # with this epsilon everything is redundant after the first batch
    after = adapter.weights.values()
    expected = 2000 * sum((fisher.values[n] * (after[n] - adapter.weights.source[n]) ** 2).sum() for n in after)
    assert not steps[-1].updated
    torch.testing.assert_close(steps[-1].loss, expected)


def test_it_survives_reset_and_recovery_of_state(tmp_path):
    model, xs = small_net(), small_stream()
    fisher = dualtta.estimate_fisher(model, xs, origin=ORIGIN, progress=False)
    adapter = dualtta.adapt(model, "eata", fisher=fisher)
    run(adapter, xs)
    adapter.save(tmp_path / "state")
    adapter.reset()
    assert {name for name in adapter.memory if name.startswith("fisher.")} == {f"fisher.{n}" for n in fisher.values}
    other = dualtta.adapt(model, "eata")
    other.load(tmp_path / "state")
    assert any(name.startswith("fisher.") for name in other.memory)


def test_it_is_read_from_its_cache_without_touching_the_data(tmp_path):
    model, path = small_net(), tmp_path / "fisher"
    first = dualtta.estimate_fisher(model, small_stream(), origin=ORIGIN, cache=path, progress=False)

    def untouched():
        raise AssertionError("the data must not be asked for")
        yield

    again = dualtta.estimate_fisher(model, untouched(), origin=ORIGIN, cache=path, progress=False)
    assert all(torch.equal(again.values[name], value) for name, value in first.values.items())
    by_path = dualtta.adapt(model, "eata", fisher=path)
    assert all(torch.equal(by_path.memory[f"fisher.{name}"], value) for name, value in first.values.items())


def test_a_cache_that_does_not_fit_is_refused_and_kept(tmp_path):
    model, path = small_net(), tmp_path / "fisher"
    dualtta.estimate_fisher(model, small_stream(), origin=ORIGIN, cache=path, progress=False)
    kept = path.read_bytes()
    with pytest.raises(ValueError, match="was estimated on 'random images"):
        dualtta.estimate_fisher(model, small_stream(), origin="other images", cache=path, progress=False)
    other = small_net(seed=1)
    other[0][1].weight.data *= 2
    with pytest.raises(ValueError, match="another model"):
        dualtta.estimate_fisher(other, small_stream(), origin=ORIGIN, cache=path, progress=False)
    with pytest.raises(ValueError, match="another model"):
        dualtta.adapt(other, "eata", fisher=path)
    assert path.read_bytes() == kept


def test_it_is_estimated_under_inference_mode_too():
    model, xs = small_net(), small_stream()
    plain = dualtta.estimate_fisher(model, xs, origin=ORIGIN, progress=False)
    with torch.inference_mode():
        fresh = [x.clone() for x in xs]
        other = dualtta.estimate_fisher(model, fresh, origin=ORIGIN, progress=False)
    assert all(torch.equal(other.values[name], value) for name, value in plain.values.items())


@pytest.mark.parametrize(
    ("batches", "says"),
    [([(torch.zeros(2, 3, 16, 16), torch.zeros(2))], "inputs alone"), ([torch.full((2, 3, 16, 16), torch.nan)], "NaN or Inf")],
)
def test_batches_that_are_no_inputs_are_refused(batches, says):
    with pytest.raises(ValueError, match=says):
        dualtta.estimate_fisher(small_net(), batches, origin=ORIGIN, progress=False)


def test_it_needs_data():
    with pytest.raises(ValueError, match="at least one batch"):
        dualtta.estimate_fisher(small_net(), [], origin=ORIGIN, progress=False)


def test_it_shows_its_progress_and_is_silent_when_piped(monkeypatch, capfd):
    calls = []

    def track(batches, title, *, shown):
        calls.append((title, shown))
        return batches

    dualtta.estimate_fisher(small_net(), small_stream(), origin=ORIGIN)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr("dualtta.fisher.track", track)
    dualtta.estimate_fisher(small_net(), small_stream(), origin=ORIGIN)
    dualtta.estimate_fisher(small_net(), small_stream(), origin=ORIGIN, progress=False)
    assert calls == [("Fisher importance", True), ("Fisher importance", False)]
