# SPDX-License-Identifier: Apache-2.0
"""Runs tests/engine with another build of the engine's module, such as a sanitized one.

    LD_PRELOAD=libasan.so python tests/engine/sanitized.py MODULE

`make check-full` calls it: hostile servers, TLS and the Python boundary under ASan and
UBSan; and the module beside it, which reads reports. Python's own memory is not watched
for leaks; tests/leaks does that.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_ENGINE = "ldapslam.agent._engine"
_COLUMNS = "ldapslam.results._columns"


def _load(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def main() -> int:
    engine, here = Path(sys.argv[1]), Path(__file__).parent
    _load(_ENGINE, engine)
    _load(_COLUMNS, engine.with_name(engine.name.replace("_engine", "_columns")))
    histograms = here.parent / "unit" / "results" / "test_histogram.py"
    # what measures time would measure the sanitizers
    chosen = ["-m", "not accuracy", str(here), str(histograms)]
    return pytest.main(["-q", "-p", "no:cacheprovider", *chosen])


if __name__ == "__main__":
    sys.exit(main())
