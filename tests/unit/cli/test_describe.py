# SPDX-License-Identifier: Apache-2.0
"""`ldapslam describe`: what there is, and each by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main

CONFIGS = Path(__file__).resolve().parents[3] / "configs"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main.run(["describe", *arguments]) == ExitCode.PASS
    return capsys.readouterr().out


def test_each_name_is_in_the_overview(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys)
    overview = json.loads(answer(capsys, "--json"))
    assert {"run", "streams.load"} <= set(overview["sections"])
    assert {"search", "modify"} <= overview["operations"].keys()
    assert {"auth", "burst", "prime"} <= overview["types"].keys()
    for kind, examples in overview["examples"].items():
        names = [path.stem for path in sorted((CONFIGS / kind).glob("*.yaml"))]
        assert list(examples) == names
        assert not [line for line in examples.values() if "${" in line]
    for group in ("sections", "operations", "types"):
        for name in overview[group]:
            assert f"\n  {name}" in text
            assert answer(capsys, name)


def test_a_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for document in ("job", "study", "result"):
        assert json.loads(answer(capsys, "--schema", document))["$schema"]
