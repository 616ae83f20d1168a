# SPDX-License-Identifier: Apache-2.0
"""Runs tests/engine with another build of the engine's module, such as a sanitized one.

    LD_PRELOAD=libasan.so python tests/engine/sanitized.py MODULE

`make check-full` calls it: hostile servers, TLS and the Python boundary under ASan and
UBSan. Python's own memory is not watched for leaks; tests/leaks does that.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

_NAME = "ldapslam.agent._engine"


def main() -> int:
    spec = importlib.util.spec_from_file_location(_NAME, sys.argv[1])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    return pytest.main(["-q", "-p", "no:cacheprovider", str(Path(__file__).parent)])


if __name__ == "__main__":
    sys.exit(main())
