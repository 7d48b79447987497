"""Where a result comes from: versions of packages, commit of the code, machine."""

import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from dualtta import __version__

PACKAGES = ("torch", "torchvision", "timm", "numpy", "scipy", "opencv-python-headless", "pillow")


def provenance() -> dict[str, Any]:
    """Versions, commit and machine, as they are written into cell.json."""
    return {"versions": {"dualtta": __version__, **_versions()}, "commit": commit(), "machine": machine()}


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The commit of the source tree this package runs from, with a "+" where files differ from it; None outside a checkout."""
    home = Path(__file__).resolve().parents[1]
    top, _, head = _git(home, "rev-parse", "--show-toplevel", "HEAD").partition("\n")
    if not head or Path(top, "dualtta").resolve() != home:  # the repository of another project
        return None
    return head + ("+" if _git(home, "status", "--porcelain", "--", str(home)) else "")


def _git(home: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(home), *words], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """Operating system, processor and GPU."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    return {"system": platform.platform(), "processor": platform.machine(), "gpu": gpu}
