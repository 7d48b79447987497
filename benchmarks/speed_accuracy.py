"""Whether a faster way predicts as well: one stream of real data at several speeds, with accuracy and images a second.

python benchmarks/speed_accuracy.py --root DATA [--backbone resnet50_v1 --weights weights/resnet50_v1_fp16.pt]
                                    [--corruptions contrast jpeg_compression] [--speeds naive safe fast] [--method dualtta]

DATA holds ImageNet's validation images (any number of them); they are corrupted here, at severity 5.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from dualtta.bench.benchmarks import Options, imagenet
from dualtta.bench.run import run_plan
from dualtta.bench.workspace import Workspace
from dualtta.device import pick_device
from dualtta.printing import table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--backbone", default="resnet50_v1")
    parser.add_argument("--weights", default="weights/resnet50_v1_fp16.pt")
    parser.add_argument("--corruptions", nargs="+", default=["contrast", "jpeg_compression"])
    parser.add_argument("--speeds", nargs="+", default=["naive", "safe", "fast"])
    parser.add_argument("--method", default="dualtta")
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()
    device = str(pick_device(None))
    rows = []
    reached: dict[str, list[float]] = {speed: [] for speed in args.speeds}
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder), args.root, device, 1, args.workers)
        for speed in args.speeds:
            options = Options((2024,), backbone=args.backbone, weights=args.weights, root=args.root, speed=speed)
            setups = imagenet(options, args.corruptions)
            cells = [cell for setup in setups for cell in setup.cells([args.method], options)]
            result = run_plan(cells, workspace)
            for record in result.records:
                shift = ", ".join(record.cell["domains"])
                samples, seconds = record.summary["samples"], record.cost["seconds"]
                reached[speed].append(100 * record.summary["accuracy"])
                rows.append([args.method, speed, shift, str(samples), f"{reached[speed][-1]:.2f}", f"{samples / seconds:,.0f}"])
            for what, reason in result.failed.items():
                rows.append([args.method, speed, what, "", reason, ""])
    header = ["method", "speed", "shift", "samples", "accuracy", "images/s"]
    table(header, rows, f"{args.backbone} on {device}; the pace includes what is done once, compiling too")

    for speed, found in reached.items():
        print(f"{speed}: {statistics.mean(found):.2f} % on average{against(found, reached[args.speeds[0]])}")


def against(found: list[float], first: list[float]) -> str:
    """The mean difference to the first speed on the same streams, with its standard error over them."""
    if found is first or len(found) != len(first) or len(found) < 2:
        return ""
    gaps = [own - other for own, other in zip(found, first, strict=True)]
    return f", {statistics.mean(gaps):+.2f} points (standard error {statistics.stdev(gaps) / len(gaps) ** 0.5:.2f})"


if __name__ == "__main__":
    main()
