"""Golden vectors: the shared ones where they are at hand, and the runner's own judgement on vectors made here."""

import json
from pathlib import Path

import pytest

from dualtta.conformance import check_folder

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
