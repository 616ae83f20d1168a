# SPDX-License-Identifier: Apache-2.0
"""The committed generated code is what the pinned generator makes of the sources."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from ldapslam.proto.generate import GRPCIO_TOOLS_VERSION, generate, stale_files


def _require_generator() -> None:
    try:
        found = version("grpcio-tools")
    except PackageNotFoundError:
        pytest.skip("grpcio-tools is not installed")
    if found != GRPCIO_TOOLS_VERSION:
        pytest.skip(f"grpcio-tools is {found}, pinned is {GRPCIO_TOOLS_VERSION}")


def test_of_the_generated_files_only_changed_and_left_over_ones_are_stale(
    tmp_path: Path,
) -> None:
    _require_generator()
    files = generate(tmp_path)
    files["common_pb2.py"] += b"#"
    del files["agent_pb2.pyi"]
    assert stale_files(files) == ["agent_pb2.pyi", "common_pb2.py"]


def test_the_generators_pin_and_the_floors_agree() -> None:
    root = Path(__file__).parents[2]
    pyproject = (root / "pyproject.toml").read_text(encoding="utf-8")
    minor = GRPCIO_TOOLS_VERSION.rpartition(".")[0]
    assert f'"grpcio-tools=={GRPCIO_TOOLS_VERSION}"' in pyproject
    assert f'"grpcio>={minor}' in pyproject
