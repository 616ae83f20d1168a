# SPDX-License-Identifier: Apache-2.0
"""Nothing of another host's text is obeyed where it is shown."""

from __future__ import annotations

import csv
import io
import json
import logging
from xml.etree import ElementTree

import numpy as np
import pytest

from ldapslam.base.errors import TargetError
from ldapslam.base.inert import inert, inert_cell
from ldapslam.base.log_format import set_up_log
from ldapslam.cli.console import complain, put_json
from ldapslam.cli.fleet.operate import put_table
from ldapslam.reports.formats.exports import write_monitors
from ldapslam.reports.typeset import plain
from ldapslam.results.records import Metric, MonitorDescription, MonitorSeries

#: Clears the screen, sets the title, moves by a C1 sequence, turns the line around.
EVIL = "ok\x1b[2J\x1b]0;owned\x07\x9b1A\u202etxt"
OBEYED = set("\x1b\x07\x9b\u202e\r\b\x7f")


def test_what_a_terminal_obeys_is_shown_instead() -> None:
    assert inert(EVIL) == ("ok\\u001b[2J\\u001b]0;owned\\u0007\\u009b1A\\u202etxt")
    kept = "Größe\t7\n – 100 µs, “x”"
    assert inert(kept) == kept
    assert inert("a\u061cb") == "a\\u061cb"
    assert inert("a\r\b\x7f\x00b") == "a\\u000d\\u0008\\u007f\\u0000b"


def test_a_json_text_stays_one() -> None:
    document = json.dumps({"text": EVIL}, ensure_ascii=False)
    assert json.loads(inert(document)) == {"text": EVIL}


def test_a_document_in_xml_stays_one() -> None:
    """U+FFFE and U+FFFF are UTF-8, but no characters of XML 1.0: no parser takes a
    junit.xml with one."""
    element = ElementTree.Element("failure", message=inert("no\ufffe\uffff entry"))
    [text] = ElementTree.fromstring(ElementTree.tostring(element)).attrib.values()
    assert text == "no\\ufffe\\uffff entry"


def test_no_output_of_a_command_obeys_it(capsys: pytest.CaptureFixture[str]) -> None:
    complain(TargetError(EVIL, hint=EVIL))
    put_json({"detail": EVIL})
    put_table(["name"], [[EVIL]], "none")
    shown = capsys.readouterr()
    assert shown.err.count("owned") == 2
    assert shown.out.count("owned") == 2
    assert not OBEYED & set(shown.err + shown.out)
    assert not OBEYED & set(plain(EVIL))


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_line_of_a_log_obeys_it(
    log_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setenv("LDAPSLAM_LOG_FORMAT", log_format)
    set_up_log(log_format)
    logging.getLogger("x").error("it said %s", EVIL)
    assert "owned" in lines.getvalue()
    assert not OBEYED & set(lines.getvalue())


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_is_computed(text: str) -> None:
    assert inert_cell(text) == f"'{text}"
    assert inert_cell(f"a{text}") == f"a{text}"
    description = MonitorDescription(text, [Metric(text, text, "gauge")])
    none, one = np.array([], np.int64), np.array([7], np.int64)
    out = io.StringIO()
    series = [
        MonitorSeries(text, description, one, one, np.array([[-1.0]]), {}),
        MonitorSeries(text, description, one, one, np.array([[0.0]]), {0: text}),
        MonitorSeries(text, description, none, none, np.zeros((0, 1)), {}),
    ]
    write_monitors(series, out)
    rows = list(csv.reader(io.StringIO(out.getvalue(), newline="")))[1:]
    cells = [cell for row in rows for cell in row if not cell.startswith("-1")]
    assert cells
    assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in cells)
    assert rows[0][7] == "-1", "a number stays one"


def test_no_cell_ends_its_row() -> None:
    assert inert_cell("\r=1") == "\\u000d=1"
