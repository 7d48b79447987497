"""Verdicts of harm on records made of drawn numbers."""

from types import SimpleNamespace

import numpy as np
import pytest

from dualtta.report import read_results
from dualtta.report.safety import WINDOW, ccc_tables, judge, judged_part, stream_name, tables
from dualtta.report.tables import build_tables

DOMAINS = ("clean", "fog")


@pytest.fixture
def pair(tmp_path, make, rows_of):
    """Writes `source` and a method that turns some of its correct predictions into wrong ones, and reads both."""

    def made(flips, samples=4000, seeds=(1, 2), domains=DOMAINS[:1], **stream):
        for seed in seeds:
            rows = rows_of(samples, seed, accuracy=0.8, domains=len(domains), looks=False)
            worse = {name: column.copy() for name, column in rows.items()}
            right = np.flatnonzero(rows["prediction"] == rows["label"])
            chosen = flips(right)
            worse["prediction"][chosen] = (worse["label"][chosen] + 1) % 4
            for method, columns in (("source", rows), ("tent", worse)):
                about = {"dataset": "imagenet_stress", "domains": domains, "stream": {"domains": ["clean"], **stream}}
                make(tmp_path, method, seed, rows=columns, **about)
        frame, _ = read_results([tmp_path])
        return frame

    return made


def judged(frame):
    return judge(frame[frame["method"] == "tent"], frame[frame["method"] == "source"])


def test_equal_predictions_are_no_harm(pair):
    found = judged(pair(lambda right: right[:0]))
    assert found.difference[0] == found.window[0] == 0
    assert found.verdict == "no harm shown"


def test_a_loss_over_the_whole_stream_is_harm(pair):
    found = judged(pair(lambda right: right[::20]))
    assert found.difference[0] == pytest.approx(-4, abs=0.3)
    assert found.difference[2] < -0.5
    assert found.verdict == "harm"


def test_a_loss_in_one_window_is_harm_though_the_mean_is_not(pair):
    frame = pair(lambda right: right[right < WINDOW][::20], samples=16_000)
    found = judged(frame)
    assert found.difference[2] > -0.5
    assert found.window[2] < -2
    assert found.harm
    assert found.start == 0


def test_the_last_window_ends_with_the_stream(pair):
    found = judged(pair(lambda right: right[right >= 1200][::10], samples=1500))
    assert found.start == 500


def test_only_images_after_the_earlier_stream_are_judged(pair):
    frame = pair(lambda right: right[right < 2000], domains=("fog", "clean"), before={"name": "mild", "domains": ["fog"]})
    part = judged_part(next(frame.itertuples()))
    assert part.sum() == 2000
    assert part[2000:].all()
    assert judged(frame).difference[0] == 0


def test_the_table_has_a_row_a_stream_and_a_line_that_sums_up(pair):
    frame = pair(lambda right: right[::20])
    (table,) = tables(frame)
    (row,) = table.rows
    assert (row.label, row.values[0]) == ("clean", "Tent")
    assert row.values[table.header.index("verdict") - 1] == "harm"
    assert row.values[table.header.index("source") - 1].mean == pytest.approx(80, abs=2)
    (line,) = [text for text in table.notes.values() if "harm in" in text]
    assert line.startswith("Tent: harm in 1 of 1 streams; worst stream clean, -3.9")
    assert [made.name for made in build_tables(frame)] == ["safety", "cost"]  # nothing is shown twice


def test_without_a_reference_the_accuracy_is_shown_and_no_verdict(pair):
    frame = pair(lambda right: right[::20])
    (table,) = tables(frame[frame["method"] == "tent"])
    assert table.rows[0].values[1].mean == pytest.approx(76, abs=2)
    assert table.rows[0].values[table.header.index("verdict") - 1] == ""


@pytest.mark.parametrize(
    ("scenario", "stream", "name"),
    [
        ("mild", {"domains": ["fog"]}, "fog"),
        ("mild", {"domains": ["clean"], "batch_size": 1}, "clean, single images"),
        ("mixed", {"domains": ["a", "b", "c"], "batch_size": 4, "repeats": 4}, "mixed, 4 passes, batches of 4"),
        ("sorted", {"domains": ["fog"]}, "sorted, fog"),
        ("one-class", {"domains": ["clean"], "classes": 5}, "5 classes, clean"),
        ("continual", {"domains": ["clean"], "before": {"name": "mild", "domains": ["noise"]}}, "clean after noise"),
        (
            "continual",
            {"domains": ["clean"], "before": {"name": "repeated", "domains": ["fog"]}},
            "clean after one fog batch repeated",
        ),
    ],
)
def test_streams_have_names(scenario, stream, name):
    cell = SimpleNamespace(scenario=scenario, stream=stream, domains=("clean",), choices={})
    assert stream_name(cell) == name


def test_continually_changing_corruptions_have_a_table_of_their_own_from_easy_to_hard(tmp_path, make, rows_of):
    for difficulty in ("hard", "easy"):
        for method in ("source", "tent"):
            rows = rows_of(1200, 1, looks=False)
            about = {"dataset": "imagenet_ccc", "choices": {"difficulty": difficulty, "speed": 1000, "seed": 1}}
            make(tmp_path, method, 1, rows=rows, domains=(difficulty,), **about)
    frame, _ = read_results([tmp_path])
    assert not tables(frame)
    (table,) = ccc_tables(frame)
    assert [row.label for row in table.rows] == ["easy, 1,000 images a step", "hard, 1,000 images a step"]
