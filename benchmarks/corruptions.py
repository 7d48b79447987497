"""Throughput of each corruption in images per second on one core, at 224 (severities 3 and 5) and at 32.

python benchmarks/corruptions.py [--seconds 1] [--json]
"""

import argparse
import json
import os
import time

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # before numpy is imported

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from dualtta.data.corruptions import CORRUPTIONS, corrupt, find_frost, rng_for  # noqa: E402

REQUIRED = 60  # images per second at 224


def scene(size: int) -> NDArray[np.uint8]:
    """Smooth shapes with fine texture and the full range of brightness (shot noise is slow on bright images)."""
    rng = np.random.RandomState(0)
    coarse = cv2.resize(rng.uniform(0, 255, size=(7, 7, 3)), (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(np.clip(coarse + rng.normal(scale=12, size=(size, size, 3)), 0, 255), np.uint8)


def rate(name: str, severity: int, size: int, seconds: float) -> float:
    """Images per second, without the first image, which fills caches."""
    image, frost = scene(size), find_frost()
    corrupt(image, name, severity, rng_for(0, name, severity, 0), frost=frost)
    start, count = time.perf_counter(), 0
    while (passed := time.perf_counter() - start) < seconds:
        count += 1
        corrupt(image, name, severity, rng_for(0, name, severity, count), frost=frost)
    return count / passed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="how long to measure each (default: 0.5)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    columns = {"224, severity 3": (3, 224), "224, severity 5": (5, 224), "32, severity 3": (3, 32), "32, severity 5": (5, 32)}
    rates = {name: {key: rate(name, *column, options.seconds) for key, column in columns.items()} for name in CORRUPTIONS}
    if options.json:
        print(json.dumps(rates, indent=2))
        return
    print(f"{'images/s on one core':20}" + "".join(f"{key:>17}" for key in columns))
    for name, row in rates.items():
        print(f"{name:20}" + "".join(f"{value:17.0f}" for value in row.values()))
    slowest = min(min(row["224, severity 3"], row["224, severity 5"]) for row in rates.values())
    print(f"slowest at 224: {slowest:.0f} images/s ({REQUIRED} required)")


if __name__ == "__main__":
    main()
