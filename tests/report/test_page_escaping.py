"""Nothing that a record says becomes markup, a script or a tag that plotly reads."""

import json
import re
from pathlib import Path

import pytest

from dualtta.report.markup import data, plain, tag
from dualtta.report.page import plainly

RECORDS = Path(__file__).parents[1] / "recorded"
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&<!--"


@pytest.fixture(scope="module")
def demo(page_of) -> str:
    return page_of(RECORDS / "demo")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, make, page_of) -> str:
    out = tmp_path_factory.mktemp("hostile")
    for method, seed in (("source", 1), ("dualtta", 1), ("dualtta", 2), (HOSTILE, 1)):
        make(out, method, seed, dataset=HOSTILE, model=HOSTILE, domains=(HOSTILE, "b"), settings={"note": HOSTILE, HOSTILE: 1})
    return page_of(out)


def test_names_that_are_markup_stay_text(hostile, demo, Elements):
    elements, clean = Elements(hostile), Elements(demo)
    assert not elements.unbalanced
    assert elements.all("img") == []
    assert {tag for tag, _ in elements.found} <= {tag for tag, _ in clean.found}
    assert not any(key.startswith("on") for _, attributes in elements.found for key in attributes)
    assert HOSTILE in elements.text
    early, _, *others = elements.scripts  # the second holds the data
    assert [early, *others] == [clean.scripts[0], *clean.scripts[2:]]


def test_data_inside_a_script_can_neither_end_it_nor_open_a_comment(hostile, embedded):
    found = embedded(hostile)  # that it can be read at all is half of the test
    assert any(run["cell"]["dataset"]["name"] == HOSTILE for run in found["runs"]["runs"].values())
    start = hostile.index('id="data">') + len('id="data">')
    assert "<" not in hostile[start : hostile.index("</script>", start)]


def test_plotly_gets_no_tags_from_names(hostile, embedded):
    def texts(value):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for item in value.values() if isinstance(value, dict) else value:
                yield from texts(item)

    specs = [panel["plot"] for figure in embedded(hostile)["figures"] for panel in figure["panels"]]
    tags = {found for text in texts(specs) for found in re.findall(r"</?[a-z]+", text)}
    assert tags <= {"<br", "<b", "</b", "<extra", "</extra"}
    assert "<" not in plain(HOSTILE)


def test_escaping_holds_for_whatever_a_name_may_be():
    assert tag("p", HOSTILE, title=HOSTILE) == (
        '<p title="&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;&lt;!--">'
        "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;&lt;!--</p>"
    )
    assert json.loads(data({HOSTILE: "\u2028"})) == {HOSTILE: "\u2028"}
    assert plainly(("<b>", {"<i>": 1})) == ("\u2039b\u203a", {"\u2039i\u203a": 1})
