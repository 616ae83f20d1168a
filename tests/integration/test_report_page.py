# SPDX-License-Identifier: Apache-2.0
"""The HTML report in a browser: what its script adds, and who can read it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
    scenario = Scenario(failing=0.05, timed_out=1)
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


def test_a_series_can_be_hidden(browser: Chrome) -> None:
    chart = figure(browser, "Response time")
    found = chart.find_element(By.TAG_NAME, "metadata").get_attribute("textContent")
    lines = [
        one for panel in json.loads(found or "")["panels"] for one in panel["lines"]
    ]

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
