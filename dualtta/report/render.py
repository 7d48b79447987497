"""A table as Markdown, LaTeX and CSV."""

import csv
import io
from collections.abc import Callable
from typing import NamedTuple

from dualtta.report.table import MISSING, Table, Value


def number(found: Value, digits: int = 2) -> str:
    """Mean and deviation; the deviation is missing with one seed, and a dash stands for what was not measured.

    >>> number(Value(82.1, 0.5, seeds=3)), number(Value(82.1, seeds=1))
    ('82.10 ± 0.50', '82.10')
    """
    if found.mean is None:
        return MISSING
    digits = 0 if abs(found.mean) >= 1000 else digits
    return f"{found.mean:.{digits}f}" + ("" if found.deviation is None else f" ± {found.deviation:.{digits}f}")


def beside(found: Value, digits: int = 2) -> str:
    """The reported number, and the signed difference from it.

    >>> beside(Value(82.1, reported=82.12)), beside(Value(reported=82.12)), beside(Value(82.1))
    ('paper 82.12, -0.02', 'paper 82.12', '')
    """
    if found.reported is None:
        return ""
    text = f"paper {found.reported:.{digits}f}"
    return text if found.difference is None else f"{text}, {found.difference:+.{digits}f}"


def marks(found: Value, but: frozenset[str] = frozenset()) -> str:
    """
    >>> marks(Value(1.0, marks=("a", "b", "c")), but=frozenset("b"))
    'a,c'
    """
    return ",".join(mark for mark in found.marks if mark not in but)


def common(table: Table) -> frozenset[str]:
    """Marks of every measured value and of no other: noted once below the table instead of at each value."""
    values = [v for row in table.rows for v in row.values if isinstance(v, Value)]
    measured = [set(v.marks) for v in values if v.mean is not None]
    elsewhere = {mark for v in values if v.mean is None for mark in v.marks}
    return frozenset(set.intersection(*measured) - elsewhere) if len(measured) > 1 else frozenset()


def visible(text: str) -> str:
    r"""Text without control characters: names from records must neither steer a terminal nor break a line.

    >>> visible("sketch\x1b[2J\n")
    'sketch\ufffd[2J '
    """
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in text)


def notes_text(table: Table) -> list[str]:
    """The notes below a table, a line each; a note that no single value is marked with has no mark.

    >>> notes_text(Table("t", "T", ("",), (), {"a": "a subset", "(1)": "seeds 1, 2"}))
    ['a: a subset', 'seeds 1, 2']
    """
    everywhere = common(table)
    said = [f"all values: {table.notes[mark]}" for mark in table.notes if mark in everywhere]
    rest = [(mark, text) for mark, text in table.notes.items() if mark not in everywhere]
    return said + [text if mark.startswith("(") else f"{mark}: {text}" for mark, text in rest]


class Markup(NamedTuple):
    """How a language writes a value; `{}` stands for the text."""

    word: Callable[[str], str]  # escapes
    best: str
    level: str
    marks: str
    beside: str


def cells(table: Table, markup: Markup) -> list[list[str]]:
    """The lines of a table, each a list of texts: the label, then the values."""
    everywhere = common(table)

    def text(found: Value | str) -> str:
        if isinstance(found, str):
            return markup.word(found)
        made = markup.word(number(found, table.digits))
        made = markup.best.format(made) if found.best else markup.level.format(made) if found.level else made
        seen, paper = marks(found, everywhere), beside(found, table.digits)
        made += markup.marks.format(markup.word(seen)) if seen else ""
        return made + (markup.beside.format(markup.word(paper)) if paper else "")

    return [[text(found) for found in (row.label, *row.values)] for row in table.rows]


def to_markdown(table: Table) -> str:
    """A heading, the table, its notes and its command."""
    rule = ["---"] + ["---:"] * (len(table.header) - 1)
    lines = [f"## {md(table.title)}", ""]
    lines += [f"| {' | '.join(line)} |" for line in ([*map(md, table.header)], rule, *cells(table, MARKDOWN))]
    lines += ["", *(f"- {md(line)}" for line in notes_text(table))] if table.notes else []
    lines += ["", f"Made by `{table.command}`."] if table.command else []
    return "\n".join(lines) + "\n"


def md(text: str) -> str:
    r"""Text with the characters escaped that mean something in Markdown or HTML.

    >>> md("a|b <i>*x*</i>")
    'a\\|b &lt;i&gt;\\*x\\*&lt;/i&gt;'
    """
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for sign in "\\`*_[]|#~$":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())


MARKDOWN = Markup(md, "**{}**", "<u>{}</u>", " <sup>{}</sup>", "<br><sub>{}</sub>")
TEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "✓": r"$\checkmark$",
    "✗": r"$\times$",
    "–": "--",  # noqa: RUF001
    "\ufffd": "?",
}


def to_latex(table: Table) -> str:
    """A floating table with booktabs rules, no wider than a line. Needs \\usepackage{booktabs,amssymb,graphicx}."""
    columns = "l" + "".join("l" if is_text(table, i) else "r" for i in range(len(table.header) - 1))
    wide = len(table.header) > 7
    lines = [r"\begin{table" + ("*" if wide else "") + "}", r"\centering", rf"\caption{{{tex(table.title)}}}"]
    lines.append(rf"\label{{tab:{table.name}}}")
    lines.append(r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%")
    lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", f"{' & '.join(map(tex, table.header))} \\\\", r"\midrule"]
    lines += [f"{' & '.join(line)} \\\\" for line in cells(table, LATEX)]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if table.notes:
        lines += ["", r"\smallskip", r"\raggedright\footnotesize", *(rf"{tex(line)}\\" for line in notes_text(table))]
    lines.append(r"\end{table" + ("*" if wide else "") + "}")
    return "\n".join(lines) + "\n"


def is_text(table: Table, column: int) -> bool:
    return bool(table.rows) and all(isinstance(row.values[column], str) for row in table.rows)


def tex(text: str) -> str:
    r"""Text with the characters escaped that mean something in LaTeX.

    >>> tex("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return "".join(TEX.get(sign, sign) for sign in " ".join(visible(text).split()))


LATEX = Markup(tex, r"\textbf{{{}}}", r"\underline{{{}}}", r"\textsuperscript{{{}}}", r" {{\scriptsize ({})}}")
EXACT = ("mean", "deviation", "seeds", "samples", "reported", "difference")
FLAGS = ("best", "level", "whole")


def to_csv(table: Table) -> str:
    """A line a value, in full precision; `row` numbers the table's lines, because labels may repeat."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["row", "label", "column", "text", *EXACT, *FLAGS, "notes"])
    for i, row in enumerate(table.rows):
        for header, found in zip(table.header[1:], row.values, strict=True):
            if isinstance(found, str):
                values = [plain(found), *[""] * (len(EXACT) + len(FLAGS) + 1)]
            else:
                notes = "; ".join(table.notes[mark] for mark in found.marks)
                flags = [str(int(getattr(found, name))) for name in FLAGS]
                values = ["", *(getattr(found, name) for name in EXACT), *flags, plain(notes)]
            writer.writerow([i, plain(row.label), plain(header), *values])
    return out.getvalue()


def plain(text: str) -> str:
    """Text that a spreadsheet does not read as a formula.

    >>> plain("=1+1"), plain("DualTTA"), plain("-0.41")
    ("'=1+1", 'DualTTA', '-0.41')
    """
    text = visible(text)
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return text


WRITERS: dict[str, Callable[[Table], str]] = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
