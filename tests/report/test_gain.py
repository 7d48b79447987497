"""The figure of gains over no adaptation."""

import pytest

from dualtta.cli import main
from dualtta.report import gain, read_results
from dualtta.report.overview import benchmarks


def test_gains_are_paired_differences_to_no_adaptation(tmp_path, baselines):
    baselines(tmp_path)
    frame, _ = read_results([tmp_path])
    found, methods = gain.collect(list(benchmarks(frame)))
    (intervals,) = found.values()
    assert "source" not in intervals
    assert [*methods] == [name for name in methods if name in intervals]
    points, low, high = intervals["eata"]
    assert points == pytest.approx(10.0)  # 50 % against 40 %
    assert low < points < high


def test_the_figure_is_written_beside_the_table(tmp_path, baselines, write_run, capsys):
    run, figure = str(tmp_path / "run"), str(tmp_path / "gain.png")
    baselines(tmp_path / "run")
    write_run(tmp_path / "run", "tent", 0.02)  # a loss beyond the largest gain stands at the edge
    assert main(["results", run, "--figure", figure, "--methods", "source,eata,tent"]) == 0
    assert "Tent" in capsys.readouterr().out
    assert {path.name for path in tmp_path.glob("gain.*")} == {"gain.png", "gain.svg"}
    assert main(["results", run, "--figure", figure, "--methods", "eata,sar"]) == 2
    assert "run both" in capsys.readouterr().err


def test_scenarios_choose_the_rows(tmp_path, baselines, capsys):
    baselines(tmp_path)
    assert main(["results", str(tmp_path), "--scenarios", "mild"]) == 0
    assert "mild" in capsys.readouterr().out
    assert main(["results", str(tmp_path), "--scenarios", "mixed"]) == 2
