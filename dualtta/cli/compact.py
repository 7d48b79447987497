"""`dualtta compact`: records small enough to be kept beside the code."""

import sys
from pathlib import Path


def compact(folder: Path, *, out: Path, decimals: int = 2) -> int:
    """Write small copies of a folder's records: predictions exact, other numbers rounded, marked as such.

    Args:
        folder: A folder that `dualtta run` wrote.
        out: Where the small records go, such as results/NAME; `dualtta report` and `dualtta compare` read them as any other.
        decimals: Of confidences, entropies, drops and weights; 1 to 3.
    """
    from dualtta.progress import progress
    from dualtta.records.packing import compact_folder

    with progress("compacting") as notice:
        made = compact_folder(folder, out, notice, decimals)
    for note in made.notes:
        print(f"dualtta: {note}", file=sys.stderr)
    sizes = f"{made.before / 2**20:.1f} MB became {made.after / 2**20:.1f} MB"
    print(f"{made.written} records written to {out}, {made.skipped} were there already; {sizes}")
    return 1 if made.notes else 0
