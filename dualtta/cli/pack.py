"""`dualtta pack`: records as one Parquet file."""

import sys
from pathlib import Path


def pack(folder: Path, file: Path, decimals: int = 2) -> int:
    """Write the records of a grid as one Parquet file: predictions exact, confidences, entropies, drops and weights rounded.

    Args:
        folder: A folder that `dualtta run` wrote, or one that holds such folders.
        file: The file to write, NAME.parquet; every command that reads records takes it in place of a folder.
        decimals: Of confidences, entropies, drops and weights; 1 to 6.
    """
    from dualtta.progress import progress
    from dualtta.records.packing import pack as pack_records

    with progress("packing") as report:
        made = pack_records(folder, file, decimals, report)
    for note in made.notes:
        print(f"dualtta: {note}", file=sys.stderr)
    print(f"{made.written} records written to {file}: {made.size / 2**20:.1f} MB")
    return 1 if made.notes else 0
