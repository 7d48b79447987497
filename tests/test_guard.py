"""The guard's decisions, from predictions alone."""

import math

import pytest
import torch

from dualtta.guard import LEARNING, LIMIT, PAUSED, TRIAL, Guard, Watch, evidence, sharpness, similarities
from dualtta.probe import entropy


def logits_of(labels, classes=50, confidence=8.0, noise=1.0, seed=0):
    """Predictions of these labels, the same for the same label up to noise."""
    generator = torch.Generator().manual_seed(seed)
    base = confidence * torch.nn.functional.one_hot(labels, classes).float()
    return base + noise * torch.randn(len(labels), classes, generator=generator)


SHUFFLED = torch.arange(64) % 50


def test_more_varied_predictions_of_equal_certainty_are_chosen():
    collapsed, varied = logits_of(torch.arange(64) % 2), logits_of(SHUFFLED)
    assert Watch().compare(collapsed, varied, Guard())
    assert not Watch().compare(varied, collapsed, Guard())


def test_equal_predictions_leave_the_source_statistics_in_force():
    assert not Watch().compare(logits_of(SHUFFLED), logits_of(SHUFFLED, seed=1), Guard())


@pytest.mark.parametrize("batches", [1, 20])
def test_less_certain_predictions_of_few_classes_are_refused_however_varied(batches):
    watch, few = Watch(), torch.arange(64) % 4
    for seed in range(batches):
        source = logits_of(few, confidence=8.0, seed=seed)
        blend = logits_of(few, confidence=3.0, noise=2.0, seed=seed)  # as by statistics of a batch of few classes
        assert not watch.compare(source, blend, Guard())


def test_statistics_return_to_the_source_where_the_blend_lost_its_advantage():
    watch = Watch()
    assert watch.compare(logits_of(torch.arange(64) % 2), logits_of(SHUFFLED), Guard())
    watch.blended = 1.0
    changed = [
        watch.compare(logits_of(SHUFFLED, seed=s), logits_of(SHUFFLED, confidence=4.0, seed=s), Guard()) for s in range(9)
    ]
    assert any(changed)


def test_small_batches_are_compared_only_when_enough_samples_were_seen():
    watch = Watch()
    answers = [
        watch.compare(logits_of(torch.arange(4) % 2, seed=s), logits_of(torch.arange(4) + 4 * (s % 9), seed=s), Guard())
        for s in range(20)
    ]
    assert not any(answers[:15])
    assert any(answers[15:])


def test_similarity_is_one_with_itself_and_zero_with_others_for_certain_different_predictions():
    own, cross = similarities(torch.eye(5))
    assert (own, cross) == (1, 0)


@pytest.mark.parametrize("factor", [0.2, 1.0, 7.0])
def test_sharpening_alone_is_no_evidence(factor):
    control, flipped = logits_of(SHUFFLED, confidence=3.0), logits_of(SHUFFLED, confidence=3.0, seed=1)
    each = evidence(control, factor * control, flipped, factor * flipped, price=0.1)
    assert each.abs().max() < 1e-3


def test_a_model_that_contradicts_itself_less_has_evidence_and_one_that_only_moved_has_not():
    control, flipped = logits_of(SHUFFLED, noise=2.0), logits_of(SHUFFLED, noise=2.0, seed=1)
    better = evidence(control, (control + flipped) / 2, flipped, (control + flipped) / 2, price=0.1)
    assert better.mean() > 0
    moved, moved_flipped = logits_of(SHUFFLED, noise=2.0, seed=2), logits_of(SHUFFLED, noise=2.0, seed=3)
    same = evidence(control, moved, flipped, moved_flipped, price=10.0)
    assert same.mean() < 0


def test_the_sharpness_gives_the_wanted_entropy():
    logits = logits_of(SHUFFLED, noise=2.0)
    wanted = entropy((0.3 * logits).log_softmax(1)).mean()
    found = sharpness(logits, wanted)
    assert entropy((found * logits).log_softmax(1)).mean().item() == pytest.approx(wanted.item(), rel=1e-3)


def test_a_trial_ends_by_its_evidence():
    guard, generator = Guard(), torch.Generator().manual_seed(0)
    for shift, verdict in ((0.3, "benefit"), (-0.4, "harm"), (-0.05, "none"), (0.05, "")):
        watch = Watch(since=guard.trial)
        each = torch.randn(256, generator=generator, dtype=torch.float64)
        watch.add(each - each.mean() + shift)
        assert watch.verdict(guard) == verdict
    early = Watch(since=guard.trial / 4)
    early.add(each - each.mean() + 0.3)
    assert early.verdict(guard) == "benefit"
    early = Watch(since=guard.trial / 4)
    early.add(each - each.mean() + 0.15)
    assert early.mode == TRIAL
    assert early.verdict(guard) == ""
    early = Watch(since=guard.trial / 4)
    early.add(each - each.mean() - 0.1)
    assert early.verdict(guard) == "none"


def test_checks_are_more_frequent_in_a_trial_and_rarer_in_a_long_pause():
    guard = Guard()
    assert [Watch(mode=mode).every(guard) for mode in (TRIAL, LEARNING)] == [2, 4]
    assert [Watch(mode=PAUSED, pause=n * guard.pause).every(guard) for n in (1, 4, 64)] == [4, 16, 16]


def test_chance_ends_learning_in_about_one_check_of_a_hundred():
    generator, ends = torch.Generator().manual_seed(0), 0
    for _ in range(300):
        watch = Watch(mode=LEARNING)
        for _ in range(10):
            watch.add(torch.randn(64, generator=generator, dtype=torch.float64))
            ends += watch.verdict(Guard()) == "harm"
    assert ends < 0.02 * 3000


def test_evidence_that_is_not_finite_counts_against_the_adapted_model_and_is_bounded():
    watch = Watch()
    watch.add(torch.tensor([math.nan, -math.inf, 1e9, -1e9]))
    assert watch.evidence == -2 * LIMIT


def test_a_sudden_change_of_entropy_is_noticed_and_a_steady_stream_is_not():
    watch = Watch()
    steady = [watch.surprised(logits_of(SHUFFLED, confidence=3.0, seed=s)) for s in range(30)]
    assert not any(steady)
    assert watch.surprised(logits_of(SHUFFLED, confidence=9.0))


def test_what_is_remembered_comes_back_from_its_tensors():
    watch = Watch(since=3.0, evidence=-0.1)
    watch.compare(logits_of(SHUFFLED), logits_of(SHUFFLED, seed=1), Guard())
    again = Watch.of(watch.tensors())
    assert again.tensors().keys() == watch.tensors().keys()
    assert all(torch.equal(value, watch.tensors()[name]) for name, value in again.tensors().items())


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [("step", -1, "at least 0"), ("trial", 1.5, "a whole number"), ("every", 0, "at least 1"), ("budget", 0.5, "at least 1")],
)
def test_settings_out_of_range_are_refused(setting, value, says):
    with pytest.raises(ValueError, match=f"{setting} must be .*{says}"):
        Guard(**{setting: value})


def null_trials(size, trials=200):
    """The shares of trials passed and ended by harm where the evidence is chance alone, in batches of this size."""
    guard, generator, found = Guard(), torch.Generator().manual_seed(0), []
    for _ in range(trials):
        watch, verdict = Watch(), ""
        while not verdict:
            watch.since += 2 * size
            watch.add(torch.randn(max(size, 64), generator=generator, dtype=torch.float64))
            verdict = watch.verdict(guard)
        found.append(verdict)
    return found.count("benefit") / trials


@pytest.mark.slow
def test_chance_passes_few_trials():
    assert null_trials(64) < 0.1
