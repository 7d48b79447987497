"""HTML with everything escaped that is not markup already; data inside a script cannot end it."""

import html
import json
import re
from typing import Any


class Html(str):
    """Markup, which is not escaped again."""

    __slots__ = ()


VOID = ("img", "input", "br", "meta", "line", "circle", "rect", "path")


def tag(name: str, *children: Any, **attributes: Any) -> Html:
    """An element. Text and attributes are escaped; `class_` and `aria_label` are written as class and aria-label.

    >>> tag("p", "a < b", tag("b", "bold"), class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b<b>bold</b></p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in VOID:
        return Html(f"<{name}{written}>")
    return Html(f"<{name}{written}>{inner(children)}</{name}>")


def inner(child: Any) -> Html:
    """The content of an element: text, markup, None, or a series of them."""
    if child is None:
        return Html("")
    if isinstance(child, Html):
        return child
    if isinstance(child, str | int | float):
        return Html(html.escape(clean(str(child))))
    return Html("".join(inner(part) for part in child))


def _attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    key = key.rstrip("_").replace("_", "-")
    return f" {key}" if value is True else f' {key}="{html.escape(clean(str(value)))}"'


def clean(text: str) -> str:
    """Text without characters that HTML does not allow.

    >>> clean("a\\x00b\\ud800")
    'a\ufffdb\ufffd'
    """
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\ufffd", text)


def data(value: Any) -> Html:
    """JSON for a script element, without "<": it can neither end the script nor open a comment.

    >>> data({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    written = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Html(written.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def plain(text: str) -> str:
    """Text for plotly, which reads a few tags in labels.

    >>> plain("<b>photo</b> & co")
    '‹b›photo‹/b› &amp; co'
    """
    return clean(text).replace("&", "&amp;").replace("<", "\u2039").replace(">", "\u203a")
