"""Methods of other packages come in by entry point, and a broken one does no harm."""

import os
import subprocess
import sys

MODULE = """
from dataclasses import dataclass
from dualtta import Method, Selection

@dataclass(frozen=True, kw_only=True)
class Confident(Method):
    least: float = 0.9
    def select(self, probe, memory):
        return Selection.of(probe.confidence > self.least, probe.confidence)
"""
ENTRIES = """
[dualtta.methods]
confident = my_tta:Confident
broken = my_tta:Missing
module = my_tta
tent = my_tta:Confident
"""
CHECK = """
import dualtta
from dualtta.testing import check_method
assert dualtta.METHODS["confident"].__module__ == "my_tta"
assert dualtta.METHODS["tent"].__module__ == "dualtta.methods.tent", "a plug-in cannot replace a method"
assert not {"broken", "module"} & set(dualtta.METHODS)
check_method("confident")
"""


def test_a_package_registers_its_method(tmp_path):
    (tmp_path / "my_tta.py").write_text(MODULE)
    info = tmp_path / "my_tta-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-tta\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])}
    command = [sys.executable, "-c", CHECK]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "the method 'broken' of my_tta:Missing does not load" in done.stderr
    assert "the method 'module' of my_tta does not load: it is no method" in done.stderr
