"""The packed records in results/: few, small, described, and each consistent."""

from pathlib import Path

import pytest

from dualtta.cli import main
from dualtta.records.verification import read_verified

RESULTS = Path(__file__).parents[1] / "results"
FILES = sorted(RESULTS.glob("*.parquet"))

pytestmark = pytest.mark.skipif(not FILES, reason="the checkout leaves out results/")


def test_results_are_few_small_and_described():
    tracked = [path for path in RESULTS.iterdir() if path.is_file()]
    assert len(tracked) <= 15
    assert sum(path.stat().st_size for path in tracked) <= 30e6
    described = (RESULTS / "README.md").read_text()
    assert not [path.name for path in tracked if path.name not in described and path.name != "README.md"]


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_packed_record_passes_verification(file):
    records, notes = read_verified([file])
    assert records
    assert not notes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "options"),
    [
        ("docs/results.md", []),
        ("README.md", ["--methods", "source,norm,eata,deyo,dualtta,dualtta_safe", "--scenarios", "mild"]),
    ],
)
def test_the_tables_of_the_documentation_are_those_of_the_records(page, options, tmp_path):
    copy = tmp_path / "page.md"
    copy.write_bytes((RESULTS.parent / page).read_bytes())
    assert main(["results", str(RESULTS), "--into", str(copy), *options]) == 0
    assert copy.read_text() == (RESULTS.parent / page).read_text()
