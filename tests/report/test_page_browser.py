"""The page in a real browser: it opens from disk, asks nobody for anything, and everything on it works."""

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from dualtta.report import contents_of, read_results
from dualtta.report.page import page as page_text
from dualtta.report.tables import build_tables

HERE = Path(__file__).parent
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="playwright is not installed: pip install '.[dev]'"
    ),
    pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on this machine"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    frame, notes = read_results([HERE.parent / "recorded" / "demo"])
    contents = contents_of("demo", frame, build_tables(frame), notes)
    made = tmp_path_factory.mktemp("report") / "page.html"
    made.write_text(page_text(contents), encoding="utf-8")
    return made.as_uri()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Tab:
    """A page with what it complained about and what it asked for."""

    def __init__(self, browser, address: str, **options) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("html[data-ready]")

    def see_all(self) -> None:
        """Bring every figure into sight, so that it is drawn."""
        for place in self.page.query_selector_all(".figure"):
            place.scroll_into_view_if_needed()
            self.page.wait_for_function("place => place.dataset.drawn && place.querySelector('.main-svg')", arg=place)

    def __enter__(self) -> "Tab":
        return self

    def __exit__(self, *raised) -> None:
        self.context.close()


def test_on_paper_every_figure_is_drawn_in_ink_on_white_and_tables_are_whole(browser, address, tmp_path):
    with Tab(browser, address, color_scheme="dark") as tab:
        tab.page.evaluate("addEventListener('beforeprint', () => { window.paper = document.documentElement.dataset.theme; })")
        tab.page.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
        assert tab.page.evaluate("window.paper") == "light"
        assert tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert tab.page.evaluate("[...document.querySelectorAll('.figure')].every(place => place.querySelector('.main-svg'))")
        tab.page.set_viewport_size({"width": 1030, "height": 700})  # what A4 across has between its margins
        tab.page.emulate_media(media="print")
        wide = "[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth).length"
        assert tab.page.evaluate(wide) == 0
        assert not tab.errors


def column(page, number: int) -> list[str]:
    """A column of the first table, as it stands."""
    return page.eval_on_selector_all(
        "table.sortable >> nth=0 >> tbody tr", f"rows => rows.map(row => row.cells[{number}].textContent.trim())"
    )


def numbers(page, number: int) -> list[float]:
    return page.eval_on_selector_all(
        "table.sortable >> nth=0 >> tbody tr", f"rows => rows.map(row => Number(row.cells[{number}].dataset.sort))"
    )


def keep(page, name: str) -> None:
    """A screenshot for whoever looks at the test's results."""
    folder = Path(os.environ.get("DUALTTA_ARTEFACTS") or HERE.parents[1] / "artefacts")
    folder.mkdir(parents=True, exist_ok=True)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=folder / f"page-{name}.png", full_page=True)


def test_it_opens_without_an_error_and_without_the_network(browser, address):
    with Tab(browser, address) as tab:
        tab.see_all()
        keep(tab.page, "light")
        assert tab.errors == []
        assert [url for url in tab.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_what_is_not_of_the_page_may_neither_run_nor_be_fetched(browser, address):
    with Tab(browser, address) as tab:
        tab.page.evaluate(
            "document.body.insertAdjacentHTML('beforeend', "
            '\'<img src="http://localhost:9/x.png" onerror="window.broken = 1">\')'
        )
        tab.page.evaluate(
            "const s = document.createElement('script'); s.textContent = 'window.broken = 2'; document.body.append(s)"
        )
        tab.page.wait_for_function("() => document.images[document.images.length - 1].complete")
        assert tab.page.evaluate("window.broken") is None
        assert any("Content Security Policy" in error for error in tab.errors)


def test_a_table_is_sorted_by_its_heading_both_ways(browser, address):
    with Tab(browser, address) as tab:
        table = tab.page.locator("table.sortable").first
        heading = table.locator("thead th").nth(1)
        before = column(tab.page, 0)
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "descending"
        assert numbers(tab.page, 1) == sorted(numbers(tab.page, 1), reverse=True)
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "ascending"
        assert numbers(tab.page, 1) == sorted(numbers(tab.page, 1))
        assert sorted(column(tab.page, 0)) == sorted(before)
        table.locator("thead th").first.locator("button").click()
        assert heading.get_attribute("aria-sort") == "none"
        assert [name.lower() for name in column(tab.page, 0)] == sorted(name.lower() for name in before)


def test_the_keyboard_reaches_the_skip_link_first_and_sorts(browser, address):
    with Tab(browser, address) as tab:
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate("document.activeElement.className") == "skip"
        for _ in range(60):
            tab.page.keyboard.press("Tab")
            if tab.page.evaluate("document.activeElement.matches('table.sortable thead button')"):
                break
        outline = tab.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none"
        tab.page.keyboard.press("Enter")
        assert tab.page.locator("table.sortable").first.locator("thead th").first.get_attribute("aria-sort") == "ascending"


def test_samples_are_filtered_by_set_correctness_domain_and_run(browser, address):
    with Tab(browser, address) as tab:
        page = tab.page
        page.locator("#plane").scroll_into_view_if_needed()
        page.wait_for_function("() => document.getElementById('plane').dataset.points")

        def points() -> int:
            return int(page.get_attribute("#plane", "data-points"))

        def counts() -> dict[str, list[str]]:
            rows = page.eval_on_selector_all(
                "#plane-counts tbody tr", "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
            )
            return {name: rest for name, *rest in rows}

        everything = points()
        shares = counts()
        assert set(shares) == {"D+", "D-", "rest"}
        assert sum(int(row[0].replace(",", "")) for row in shares.values()) == everything
        page.select_option("#plane-set", label="D+")
        assert points() == int(shares["D+"][0].replace(",", "")) < everything
        page.select_option("#plane-right", label="wrong")
        assert points() == int(shares["D+"][2].replace(",", ""))
        page.select_option("#plane-set", label="all")
        page.select_option("#plane-right", label="right and wrong")
        page.select_option("#plane-run", index=page.locator("#plane-run option").count() - 1)
        domains = page.locator("#plane-domain option").all_text_contents()
        assert domains[0] == "all"
        whole, parts = points(), []
        for name in domains[1:]:
            page.select_option("#plane-domain", label=name)
            parts.append(points())
        assert sum(parts) == whole
        assert tab.errors == []


def test_the_theme_follows_the_system_until_it_is_switched_and_is_remembered(browser, address):
    with Tab(browser, address, color_scheme="dark") as tab:
        page = tab.page

        def ground() -> str:
            return page.evaluate("getComputedStyle(document.body).backgroundColor")

        assert page.get_attribute("html", "data-theme") == "dark"
        tab.see_all()
        keep(page, "dark")
        dark = ground()
        for _ in range(3):  # under load a new Chromium loses the first thing that a page from disk stores; never the second
            page.click("#theme")
            assert page.get_attribute("html", "data-theme") == "light"
            assert ground() != dark
            page.reload()
            page.wait_for_selector("html[data-ready]")
            if page.get_attribute("html", "data-theme") == "light":
                break
        assert page.get_attribute("html", "data-theme") == "light"
        assert tab.errors == []


def test_a_phone_shows_it_without_scrolling_sideways(browser, address):
    with Tab(browser, address, viewport={"width": 360, "height": 780}, has_touch=True) as tab:
        tab.see_all()
        keep(tab.page, "phone")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360
        boxes = tab.page.eval_on_selector_all(
            ".scroll", "all => all.map(box => [box.scrollWidth > box.clientWidth, box.tabIndex])"
        )
        assert any(wide for wide, _ in boxes)  # tables scroll inside their box, and the keyboard can do it
        assert all(index == 0 for _, index in boxes)
        assert tab.errors == []


def test_a_run_is_found_and_shows_its_settings_and_how_to_repeat_it(browser, address):
    with Tab(browser, address) as tab:
        page = tab.page
        page.fill("#find", "dualtta")
        shown = page.locator("table.runs tbody tr:visible")
        assert 0 < shown.count() < page.locator("table.runs tbody tr").count()
        assert page.text_content("#found") == f"{shown.count()} runs"
        shown.first.locator("button.open").click()
        told = page.text_content("#run")
        assert "tau_sp" in told
        assert "run_cell(cell, workspace)" in told
        assert "python" in told
        assert tab.errors == []


def test_names_that_are_markup_are_shown_as_text_and_do_nothing(browser, tmp_path, make):
    name = "</script><img src=x onerror=alert(1)><b>bold</b>"
    for method in ("source", "dualtta"):
        make(tmp_path, method, dataset=name, domains=(name, "b"), samples=80)
    made = tmp_path / "page.html"
    made.write_text(page_text(contents_of("names", read_results([tmp_path])[0], [], [])), encoding="utf-8")
    with Tab(browser, made.as_uri()) as tab:
        said = []
        tab.page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        tab.see_all()
        tab.page.locator("button.open").first.click()
        assert name in tab.page.text_content("#run")
        assert tab.page.locator("main img").count() == 0
        assert said == []
        assert tab.errors == []
