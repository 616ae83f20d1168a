# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a browser: what its script adds, and who can read it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver import ActionChains, Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from ldapslam.reports.formats.render import render
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from support.store import Scenario, fill

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def summary() -> Iterator[Summary]:
    scenario = Scenario(failing=0.05, timed_out=1, lost=frozenset({("load2", 5)}))
    with Store.open("sqlite://") as store:
        found = summarise(store, fill(store, scenario))
        yield replace(found, notes=("this is a test",))


@pytest.fixture(scope="module")
def page(summary: Summary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with Store.open("sqlite://") as store:
        folder = tmp_path_factory.mktemp("page")
        [path] = render(summary, folder, ["html"], store=store)
    return path


@pytest.fixture
def browser(page: Path) -> Iterator[Chrome]:
    options = ChromeOptions()
    for argument in ("headless=new", "no-sandbox", "window-size=1200,900"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = shutil.which("chromium") or ""
    driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        driver.get(page.as_uri())
        yield driver
        assert driver.get_log("browser") == []  # type: ignore[no-untyped-call]
    finally:
        driver.quit()


def figure(browser: Chrome, title: str) -> WebElement:
    [found] = [
        one
        for one in browser.find_elements(By.TAG_NAME, "figure")
        if one.find_element(By.TAG_NAME, "strong").text == title
    ]
    return found


def data_of(chart: WebElement) -> dict[str, Any]:
    """What the script knows of a chart."""
    text = chart.find_element(By.TAG_NAME, "metadata").get_attribute("textContent")
    found: dict[str, Any] = json.loads(text or "")
    return found


def place_of(chart: WebElement, at_s: float, panel: int = 0) -> tuple[int, int]:
    """Of a time in a panel of the whole run, from the middle of the drawing in px."""
    data = data_of(chart)
    left, top, right, bottom = data["panels"][panel]["box"]
    start, end = data["panels"][panel]["x"]
    size = chart.find_element(By.TAG_NAME, "svg").size
    scale = size["width"] / data["width"]
    x = left + (at_s - start) / (end - start) * (right - left)
    return (
        round(x * scale - size["width"] / 2),
        round((top + bottom) / 2 * scale - size["height"] / 2),
    )


def tip_at(browser: Chrome, chart: WebElement, at_s: float) -> str:
    svg = chart.find_element(By.TAG_NAME, "svg")
    ActionChains(browser).scroll_to_element(svg).perform()
    ActionChains(browser).move_to_element_with_offset(
        svg, *place_of(chart, at_s)
    ).perform()
    return chart.find_element(By.CLASS_NAME, "tip").text


def drag(browser: Chrome, chart: WebElement, from_s: float, to_s: float) -> None:
    svg = chart.find_element(By.TAG_NAME, "svg")
    ActionChains(browser).scroll_to_element(svg).perform()
    start, end = place_of(chart, from_s), place_of(chart, to_s)
    chain = ActionChains(browser).move_to_element_with_offset(svg, *start)
    chain.click_and_hold().move_to_element_with_offset(svg, *end).release().perform()


def ticks_of(chart: WebElement) -> list[float]:
    """Of the part of the run that is looked at; none of the whole run."""
    found = chart.find_elements(By.CSS_SELECTOR, ".ticks text")
    return [float(one.get_attribute("textContent") or "") for one in found]


def drawn_in(browser: Chrome) -> list[str]:
    """Every path and image of the page's drawings."""
    script = """
        const drawn = document.querySelectorAll("svg path, svg use, svg image");
        return [...drawn].map((one) =>
            ["d", "x", "width"].map((name) => one.getAttribute(name)).join());
    """
    found: list[str] = browser.execute_script(script)
    return found


def button(within: WebElement | Chrome, text: str) -> WebElement:
    [found] = [
        one for one in within.find_elements(By.TAG_NAME, "button") if one.text == text
    ]
    return found


@pytest.mark.parametrize("theme", ["Theme: light", "Theme: dark"])
def test_axe_finds_nothing_serious(browser: Chrome, theme: str) -> None:
    while (choice := browser.find_element(By.CLASS_NAME, "theme")).text != theme:
        choice.click()
    found = Axe().run(browser)["violations"]
    serious = [
        (one["id"], one["nodes"][0]["html"])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_the_theme_can_be_chosen(browser: Chrome) -> None:
    body = browser.find_element(By.TAG_NAME, "body")
    colours = {}
    for _ in range(3):
        choice = browser.find_element(By.CLASS_NAME, "theme")
        choice.click()
        colours[choice.text] = body.value_of_css_property("background-color")
    assert colours["Theme: light"] != colours["Theme: dark"]


def test_the_pointer_shows_the_values_below_it(
    browser: Chrome, summary: Summary
) -> None:
    chart = figure(browser, "Throughput")
    svg = chart.find_element(By.TAG_NAME, "svg")
    ActionChains(browser).scroll_to_element(svg).perform()
    tip = chart.find_element(By.CLASS_NAME, "tip")
    assert not tip.is_displayed()
    ActionChains(browser).move_to_element_with_offset(
        svg, 0, -svg.size["height"] // 4
    ).perform()
    assert tip.is_displayed()
    for size, at in (("width", "x"), ("height", "y")):
        assert svg.rect[at] <= tip.rect[at]
        assert tip.rect[at] + tip.rect[size] <= svg.rect[at] + svg.rect[size]
    rates = summary.timeline.operations["readers", "search"].throughput_per_s
    shown = tip.text.splitlines()
    [rate] = [line for line in shown if line.startswith("completed ")]
    value = float(rate.removeprefix("completed ").replace(",", ""))
    assert any(value == pytest.approx(one, rel=1e-3) for one in rates if one)


def test_a_chart_is_read_by_keys(browser: Chrome) -> None:
    chart = figure(browser, "Throughput")
    group = chart.find_element(By.CLASS_NAME, "scroll")
    group.send_keys(Keys.ARROW_RIGHT)
    first = chart.find_element(By.CLASS_NAME, "tip").text
    for _ in range(30):
        group.send_keys(Keys.ARROW_RIGHT)
    assert first != chart.find_element(By.CLASS_NAME, "tip").text != ""


def test_no_value_is_shown_where_there_is_none(browser: Chrome) -> None:
    chart = figure(browser, "Response time")
    assert "p50 " in tip_at(browser, chart, 4.9), "the interval goes to 5 s"
    assert "no value" in tip_at(browser, chart, 5.1)
    assert "no value" in tip_at(browser, chart, 5.9)
    assert "p50 " in tip_at(browser, chart, 6.1)


def test_keys_reach_every_panel(browser: Chrome) -> None:
    chart = figure(browser, "Throughput")
    first, second = (one["box"] for one in data_of(chart)["panels"])
    group = chart.find_element(By.CLASS_NAME, "scroll")
    cursor = chart.find_element(By.CLASS_NAME, "cursor")

    def top_after(key: str) -> float:
        group.send_keys(key)
        return float(cursor.get_attribute("y1") or "")

    assert top_after(Keys.ARROW_RIGHT) == first[1]
    place = cursor.get_attribute("x1")
    assert top_after(Keys.ARROW_DOWN) == second[1]
    assert cursor.get_attribute("x1") == place, "at the same time"
    assert top_after(Keys.ARROW_RIGHT) == second[1]
    assert top_after(Keys.ARROW_UP) == first[1]


@pytest.mark.parametrize("modifier", ["altKey", "ctrlKey", "metaKey"])
def test_keys_of_the_browser_are_left_to_it(browser: Chrome, modifier: str) -> None:
    group = figure(browser, "Throughput").find_element(By.CLASS_NAME, "scroll")
    script = """
        const press = (more) => arguments[0].dispatchEvent(new KeyboardEvent("keydown",
            { key: "ArrowLeft", cancelable: true, ...more }));
        return [press({}), press({ [arguments[1]]: true })];
    """
    taken, left = browser.execute_script(script, group, modifier)
    assert not taken
    assert left


def test_a_part_of_the_run_is_looked_at_in_all_charts(browser: Chrome) -> None:
    chart, other = figure(browser, "Throughput"), figure(browser, "Response time")
    heat = figure(browser, "Response times over time")
    before = drawn_in(browser)
    drag(browser, chart, 6, 8)
    for one in (chart, other, heat):
        ticks = ticks_of(one)
        assert 6 <= ticks[0] < ticks[-1] <= 8.1
        assert one.find_elements(By.CSS_SELECTOR, "[id*=xtick_]")[0].is_displayed() is (
            False
        )
    strips = figure(browser, "Agents over time")
    assert ticks_of(strips) == ticks_of(chart) * 2, "one axis for each column"
    assert drawn_in(browser) != before
    # 7 s is in the middle now, where 5 s was
    assert tip_at(browser, chart, 5.0).startswith(("6.9", "7"))
    svg = chart.find_element(By.TAG_NAME, "svg")
    ActionChains(browser).double_click(svg).perform()
    assert ticks_of(chart) == ticks_of(other) == []
    assert drawn_in(browser) == before


def test_keys_look_at_a_part_of_the_run(browser: Chrome) -> None:
    chart = figure(browser, "Throughput")
    group = chart.find_element(By.CLASS_NAME, "scroll")
    before = drawn_in(browser)
    group.send_keys("+")
    first = ticks_of(chart)
    group.send_keys("+")
    second = ticks_of(chart)
    assert second[-1] - second[0] < first[-1] - first[0] < 10
    for _ in range(120):
        group.send_keys(Keys.ARROW_RIGHT)
    assert ticks_of(chart)[0] > second[0], "the cursor takes the view with it"
    group.send_keys("-")
    assert len(ticks_of(chart)) > 0
    group.send_keys(Keys.ESCAPE)
    assert ticks_of(chart) == []
    assert drawn_in(browser) == before


def test_paper_shows_all(browser: Chrome) -> None:
    chart = figure(browser, "Response time")
    before = drawn_in(browser)
    browser.execute_script(
        "window.printed = []; addEventListener('beforeprint', () => printed.push("
        "document.querySelectorAll('.ticks text').length))"
    )
    toggle = button(chart, "max")
    toggle.click()
    [line] = [
        one for one in data_of(chart)["panels"][1]["lines"] if one["label"] == "max"
    ]
    path = browser.find_element(By.ID, line["id"])
    assert path.value_of_css_property("display") == "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert path.value_of_css_property("display") != "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    drag(browser, chart, 2, 4)
    looked = drawn_in(browser)
    assert looked != before
    browser.print_page()
    assert browser.execute_script("return printed") == [0]
    assert drawn_in(browser) == looked


def test_a_narrow_window_loses_nothing(browser: Chrome) -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": 320, "height": 640, "deviceScaleFactor": 1, "mobile": False},
    )
    script = """return [...document.querySelectorAll("body *")].filter((one) =>
        !one.closest(".scroll, pre") && one.getBoundingClientRect().right > innerWidth
    ).map((one) => one.outerHTML.slice(0, 200))"""
    assert browser.execute_script(script) == []


def test_a_series_can_be_hidden(browser: Chrome) -> None:
    chart = figure(browser, "Response time")
    lines = [one for panel in data_of(chart)["panels"] for one in panel["lines"]]

    def hidden() -> set[str]:
        return {
            one["label"]
            for one in lines
            if "none"
            in browser.find_element(By.ID, one["id"]).value_of_css_property("display")
        }

    assert hidden() == set()
    toggle = button(chart, "max")
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    assert hidden() == {"max"}
    toggle.click()
    assert hidden() == set()


def test_a_chart_can_be_enlarged(browser: Chrome) -> None:
    chart = figure(browser, "Throughput")
    before = chart.find_element(By.TAG_NAME, "svg").size["width"]
    button(chart, "Enlarge").click()
    dialog = browser.find_element(By.TAG_NAME, "dialog")
    assert dialog.find_element(By.TAG_NAME, "svg").size["width"] > before
    dialog.send_keys(Keys.ESCAPE)
    assert chart.find_element(By.TAG_NAME, "svg").size["width"] == before
    assert browser.find_elements(By.TAG_NAME, "dialog") == []
