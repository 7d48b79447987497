"""Rules of the source tree: direction of imports, length of files, one helper of each kind, plain language, live references.

Each rule is a function that yields violations, so that the tests can also show that it finds one.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# From bottom to top: a module may import from the lines below its own, and from its own package. Imports inside functions
# count, imports for type checking do not.
LAYERS = """
files plugins processes progress protocols hyperparameters device printing
records state speed
data
streams
views
model
probe
trust_region
optim
method
fisher
methods
adapter
guard
guarded
wrap
zoo testing
train
deploy bench conformance report
cli
__main__
"""
# Registered by entry points: they may import anything, and nothing imports them.
PLUG_INS = ("dualtta.paper", "studies")

# Packages that import less than their layer allows.
ONLY = {
    "records": ("files",),
    "report": ("records", "files", "plugins", "processes", "progress", "protocols", "printing", "methods", "data.published"),
}
EXCEPTIONS = {
    ("fisher", "wrap"): "an estimate is made with an adapter; imported when it is called",
    (
        "report.labels",
        "zoo.registry",
    ): "published rates depend on the norm layers, where no protocol is recorded",
    ("report.thumbnails", "bench.workspace"): "finds the dataset of a record",
    ("report.thumbnails", "data.registry"): "draws images of the dataset, where it is available",
    ("report.thumbnails", "data.preprocess"): "draws images as the model sees them",
    ("report.thumbnails", "views.default"): "draws the views of an image",
}

# Packages that do not need torch, and the module of them that does.
TORCH_FREE = (
    *(f"dualtta/{name}" for name in ("records/", "report/", "streams/", "files.py", "printing.py", "processes.py")),
    *(f"dualtta/data/{name}" for name in ("corrupt.py", "images.py", "published.py", "corruptions/", "datasets/", "verify/")),
)
NEEDS_TORCH = {"dualtta/report/thumbnails.py": "draws what the views make of an image"}

LONGEST = 300  # lines of a module; of a test 400
LONG: dict[str, str] = {}  # path: why it is longer
LONG_TESTS = {"tests/deploy/test_deploy.py": "its runs share one undisturbed run"}

SINGLE = {  # what only one module may contain, and which
    r"rich\.progress|import .*\bprogress as bars\b": "dualtta/progress.py",
    r"ProcessPoolExecutor|\bmultiprocessing\.Pool\b": "dualtta/processes.py",
    r"sched_getaffinity": "dualtta/processes.py",
    r"\bos\.(replace|rename)\b|\bmkstemp\b|from os import .*\b(replace|rename)\b": "dualtta/files.py",
    r"[\"']\.jpeg[\"']": "dualtta/data/images.py",
}

TORCH = r"^ *(import|from) torch\b"

BANNED = {  # in code that should use a hook, a protocol or the experiment's settings
    r"vars\([^()]*\)(\[[\"']forward[\"']\]|\.(get|pop)\([\"']forward[\"'])": "a module's forward is exchanged: use a hook",
    r"\bhasattr\(": "an attribute is probed for",
    r"\bif (\w+\.)*dataset (==|in) ?[\"'(\[]": "a case for one dataset",
}
BANNED_NAMES = {"utils", "util", "misc", "helpers", "common"}
DATASET_CASES = ("dualtta/methods/", "dualtta/paper/", "dualtta/bench/experiments.py")  # published settings depend on it

DIALECT = set(
    re.findall(
        r"\w+",
        "asked believe believed believes deaf everybody flaw flaws hear heard hears lean leaned leans lone minds nobody"
        " somebody suffice suffices tells told whoever",
    )
)

# Violations that are being removed: path prefixes, and (importer, imported) pairs. To be emptied.
NOT_YET: tuple[str, ...] = ()
NOT_YET_IMPORTS: set[tuple[str, str]] = set()


def sources(*folders: str) -> dict[str, str]:
    """Path relative to the repository -> text, of all Python files in some folders."""
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}


def module_of(path: str) -> str:
    """dualtta/data/__init__.py -> dualtta.data"""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(text: str, modules: set[str], module: str) -> Iterator[str]:
    """The modules that a text imports anywhere, but for `if TYPE_CHECKING`; `from a import b` is a.b where that is a module."""

    def visit(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: import by the full name"
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else str(node.module) for name in whole if name != "dualtta.__version__")
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    return visit(ast.parse(text))


def layer_of(module: str) -> tuple[int, str]:
    """The layer's number and the entry of LAYERS that a module, without `dualtta.`, belongs to."""
    entry = module.partition(".")[0]
    for number, line in enumerate(LAYERS.split("\n")):
        if entry in line.split():
            return number, entry
    raise LookupError(f"dualtta.{module} is in no layer: add {entry} to LAYERS")


def wrong_imports(files: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Pairs (importer, imported) against the direction; without `dualtta.`"""
    modules = {module_of(path) for path in files}
    for path, text in files.items():
        importer = module_of(path)
        if importer == "dualtta" or importer.startswith(PLUG_INS):
            continue
        number, entry = layer_of(importer.removeprefix("dualtta."))
        for imported in imports_of(text, modules, importer):
            if imported.startswith(PLUG_INS) or imported == "dualtta":
                yield importer.removeprefix("dualtta."), imported
            elif imported.startswith("dualtta."):
                target = imported.removeprefix("dualtta.")
                below, other = layer_of(target)
                only = ONLY.get(entry)
                allowed = below < number if only is None else any(f"{target}.".startswith(f"{name}.") for name in only)
                if other != entry and not allowed:
                    yield importer.removeprefix("dualtta."), target


def long_files(files: dict[str, str], limit: int) -> Iterator[str]:
    return (path for path, text in files.items() if text.count("\n") > limit)


def matches(files: dict[str, str], pattern: str) -> Iterator[str]:
    """path:line of each match."""
    for path, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if re.search(pattern, line):
                yield f"{path}:{number}"


def repeated_functions(files: dict[str, str], size: int = 350) -> Iterator[str]:
    """Functions of different modules with the same body, but for short ones and docstrings."""
    seen: dict[str, str] = {}
    for path, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                dump = "".join(map(ast.dump, body))
                first = seen.setdefault(dump, path)
                if len(dump) >= size and first != path:
                    yield f"{path}: {node.name} is in {first} too"


def dialect(text: str) -> set[str]:
    """Words of the private dialect, also as parts of identifiers."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)} & DIALECT


def missing_references(text: str, exists) -> Iterator[str]:
    """Paths in backticks and links of a Markdown text that do not exist."""
    folders = "dualtta|tests|docs|studies|benchmarks|examples|results"
    named = re.findall(rf"`((?:{folders})/[\w./-]+)`", text)
    linked = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in link]
    return (path for path in [*named, *linked] if not exists(path))


def open_cases(found, prefixes=NOT_YET) -> list[str]:
    return [each for each in found if not each.startswith(tuple(prefixes))]


CODE = sources("dualtta", "studies")
TESTS = sources("tests")
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
}


def test_imports_follow_the_direction_of_the_data():
    found = {pair for pair in wrong_imports(CODE) if pair not in EXCEPTIONS and pair not in NOT_YET_IMPORTS}
    assert not found, "\n".join(f"{importer} imports {imported}" for importer, imported in sorted(found))


def test_every_exception_of_the_direction_is_needed():
    found = set(wrong_imports(CODE))
    assert set(EXCEPTIONS) <= found


def test_packages_without_torch_do_not_import_it():
    free = {path: text for path, text in CODE.items() if path.startswith(TORCH_FREE) and path not in NEEDS_TORCH}
    assert len(free) > 30
    assert not list(matches(free, TORCH))


def test_modules_are_short():
    assert not open_cases(path for path in long_files(CODE, LONGEST) if path not in LONG)
    assert not open_cases(path for path in long_files(TESTS, 400) if path not in LONG_TESTS)


@pytest.mark.parametrize("pattern", SINGLE)
def test_one_helper_of_each_kind(pattern):
    assert not open_cases(each for each in matches(CODE, pattern) if not each.startswith(SINGLE[pattern]))


def test_no_function_is_repeated_in_another_module():
    """Each method is whole in its own file, so methods may repeat each other."""
    package = {path: text for path, text in CODE.items() if not path.startswith(("dualtta/methods/", "studies/"))}
    assert not list(repeated_functions(package))


@pytest.mark.parametrize("pattern", BANNED)
def test_no_banned_code(pattern):
    allowed = DATASET_CASES if "dataset" in pattern else ()
    assert not open_cases(each for each in matches(CODE, pattern) if not each.startswith(allowed)), BANNED[pattern]


def test_no_module_is_named_after_nothing():
    assert not [path for path in CODE if Path(path).stem in BANNED_NAMES]


def test_language_is_that_of_the_field():
    found = {path: words for path, text in (CODE | PAGES).items() if (words := dialect(text))}
    assert not {path: found[path] for path in open_cases(found)}


def test_documents_name_only_what_exists():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\n")

    def exists(page: str, path: str) -> bool:
        known = {*tracked, *(str(parent) for file in tracked for parent in Path(file).parents)}
        places = [ROOT / path, ROOT / Path(page).parent / path]
        return path.rstrip("/") in known or any(place.exists() for place in places)

    missing = [
        f"{page}: {path}"
        for page, text in PAGES.items()
        for path in missing_references(text, lambda p, page=page: exists(page, p))
    ]
    assert not open_cases(missing)


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("dualtta/data/bad.py", "from dualtta.streams import scenarios", ("data.bad", "streams")),
        ("dualtta/data/bad.py", "def late():\n    import dualtta.bench.cell", ("data.bad", "bench.cell")),
        ("dualtta/records/bad.py", "from dualtta import state", ("records.bad", "state")),
        ("dualtta/report/bad.py", "from dualtta.adapter import Adapter", ("report.bad", "adapter")),
        ("dualtta/cli/bad.py", "from dualtta.paper import claims", ("cli.bad", "dualtta.paper")),
        ("dualtta/bench/bad.py", "from studies.split import held_out", ("bench.bad", "studies.split")),
        ("dualtta/zoo/bad.py", "import dualtta", ("zoo.bad", "dualtta")),
    ],
)
def test_a_wrong_import_is_found(path, text, found):
    known = {f"dualtta/{name}.py": "" for name in ("streams", "bench/cell", "state", "adapter")}
    assert list(wrong_imports({**known, path: text})) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "from dualtta.data.images import is_image",
        "from dualtta import __version__",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from dualtta.bench import cell",
    ],
)
def test_a_right_import_is_not_reported(text):
    assert list(wrong_imports({"dualtta/data/good.py": text})) == []


def test_a_module_without_a_layer_is_reported():
    with pytest.raises(LookupError, match="add attic to LAYERS"):
        list(wrong_imports({"dualtta/attic/old.py": ""}))


def test_a_long_file_is_found():
    assert list(long_files({"a.py": "x\n" * 301, "b.py": "x\n" * 300}, 300)) == ["a.py"]


@pytest.mark.parametrize(
    "line",
    [
        "from rich.progress import track",
        "with ProcessPoolExecutor() as pool:",
        "os.replace(part, path)",
        'SUFFIXES = (".jpg", ".jpeg")',
        "len(os.sched_getaffinity(0))",
        'vars(norm)["forward"] = self',
        'before = vars(self.norm).get("forward")',
        'if hasattr(model, "head"):',
        "    from torch import nn",
        'if dataset == "waterbirds":',
        'if cell.dataset in ("pacs", "imagenet"):',
    ],
)
def test_a_line_of_banned_or_repeated_code_is_found(line):
    assert any(list(matches({"a.py": f"\n{line}"}, pattern)) == ["a.py:2"] for pattern in [*SINGLE, *BANNED, TORCH])


def test_a_repeated_function_is_found():
    body = "total = sum(values)\n    mean = total / len(values)\n    return [value - mean for value in values]"
    one = f'def one(values):\n    """Centred."""\n    {body}'
    assert list(repeated_functions({"a.py": one, "b.py": f"def two(values):\n    {body}"})) == ["b.py: two is in a.py too"]
    assert not list(repeated_functions({"a.py": one, "b.py": "def two(values):\n    return values"}))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def deaf(): ...", {"deaf"}),
        ("class AskedForNothing: ...", {"asked"}),
        ("lone_image = 1  # Nobody", {"lone", "nobody"}),
        ("cleaned, alone, mindset, sufficient", set()),
    ],
)
def test_dialect_is_found_in_words_and_identifiers(text, words):
    assert dialect(text) == words


def test_a_reference_to_nothing_is_found():
    text = "See `dualtta/gone.py`, `dualtta/here.py`, [this](gone.md), [that](here.md#part) and [the web](https://x.org)."
    assert list(missing_references(text, lambda path: "here" in path)) == ["dualtta/gone.py", "gone.md"]
