"""Hooks of the site: the README is its first page, and links to files outside of `docs/` become plain text."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

BESIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?!docs/|https?:|#)[^)]+\)")  # in the README
OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)(?![\w-]+\.md(?:#|\)))[^)]+\)")


def on_files(files: Files, config: Any) -> Files:
    readme = Path(config.config_file_path).parent / "README.md"
    text = BESIDE.sub(r"\1", readme.read_text(encoding="utf-8")).replace("](docs/", "](")
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    return OUTSIDE.sub(r"\1", markdown)
