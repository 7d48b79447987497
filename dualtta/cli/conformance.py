"""`dualtta conformance`: comparison with golden vectors."""

import json as jsonlib
from pathlib import Path


def conformance(dir: Path, json: bool = False) -> int:
    """Compare with golden vectors and print the largest error of each case; exits with 1 where a case differs.

    Args:
        dir: A folder with methods/cases.json, corruptions.npz or label_shift_*.npy.
        json: Print [{"case", "ok", "worst", "why"}] instead of a table.
    """
    if not dir.is_dir():
        raise ValueError(f"there is no folder {dir}")
    from dualtta.conformance import check_folder
    from dualtta.printing import table
    from dualtta.progress import track

    verdicts = check_folder(dir, lambda cases: track(cases, "replaying"))
    if json:
        print(jsonlib.dumps(verdicts, indent=2))
    else:
        worst = [("" if v["worst"] is None else f"{v['worst']:.1e}") for v in verdicts]
        rows = [[v["case"], "ok" if v["ok"] else "OFF", w, v["why"]] for v, w in zip(verdicts, worst, strict=True)]
        table(["case", "", "worst error", "why"], rows)
        print(f"{sum(v['ok'] for v in verdicts)} of {len(verdicts)} ok")
    return 0 if all(v["ok"] for v in verdicts) else 1
