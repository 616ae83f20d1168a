# SPDX-License-Identifier: Apache-2.0
"""What holds for the whole test suite: fixtures by topic, options, the report header.

Fixtures live in tests/support, one module per topic; a topic's module that is there is
loaded here, nothing else is.
"""

from __future__ import annotations

import logging
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Literal

import pytest
from hypothesis import is_hypothesis_test

from ldapslam import __version__

# A topic's module may be imported by another one's before it is loaded as a plugin.
pytest.register_assert_rewrite("support")

_SUPPORT = Path(__file__).with_name("support")
# Processes of the tests import `support`, too; before any fork server is described.
_PATH = str(_SUPPORT.parent), os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATH))
#: The process that starts the workers of `-n` collects no tests.
_ONLY_STARTS_WORKERS = (
    "-n" in sys.argv[:-1]
    and sys.argv[sys.argv.index("-n") + 1] != "0"
    and "PYTEST_XDIST_WORKER" not in os.environ
)
pytest_plugins = (
    []
    if _ONLY_STARTS_WORKERS
    else sorted(f"support.{path.stem}" for path in _SUPPORT.glob("*.py"))
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="only rewrite the files that tests compare with, for review by diff",
    )
    parser.addoption(
        "--all-draws",
        action="store_true",
        help="let simulations take all of their draws and property tests all examples",
    )
    parser.addoption(
        "--repeats",
        type=int,
        default=1,
        metavar="N",
        help="how often in a row each situation of test_situations.py is to be right",
    )
    parser.addoption(
        "--chaos-seed",
        type=int,
        metavar="N",
        help="of the random fault schedules, this one alone",
    )


#: A folder whose tests all have this marker: not even collected without them.
_MARKERS = {"accuracy": "accuracy", "chaos": "long"}


def pytest_ignore_collect(
    collection_path: Path, config: pytest.Config
) -> Literal[True] | None:
    """Save the collection of what `-m` leaves out."""
    marker = _MARKERS.get(collection_path.name)
    if marker and collection_path.parent == Path(__file__).parent:
        terms = config.getoption("-m").split(" and ")
        return True if f"not {marker}" in terms else None
    return None


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    if config.getoption("--update-golden"):
        items[:] = [
            item
            for item in items
            if "update_golden" in getattr(item, "fixturenames", ())
        ]
    for item in items:
        if isinstance(item, pytest.Function) and (
            "draws" in item.fixturenames or is_hypothesis_test(item.obj)
        ):
            item.add_marker("simulation")


def pytest_configure() -> None:
    """Give the commands under test the signals of a terminal's.

    A suite in the background (`&`, nohup) has some ignored, and children inherit that.
    With a handler the suite stays as deaf as it was told to be; its children do not.
    """
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _stay)


def _stay(number: int, frame: FrameType | None) -> None:
    pass


@pytest.fixture(autouse=True)
def restore_log_level() -> Iterator[None]:
    """Commands set the level of the whole process."""
    root = logging.getLogger()
    level = root.level
    yield
    root.setLevel(level)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten instead of compared."""
    return bool(request.config.getoption("--update-golden"))


def pytest_report_header() -> list[str]:
    """What a reader of a failure in CI needs to know of the machine."""
    return [
        f"ldapslam {__version__}, {platform.python_implementation()} "
        f"{platform.python_version()}, {os.cpu_count()} CPUs, {platform.release()}",
        f"libldap {_libldap_version()}, slapd {_slapd_version()}",
    ]


def _libldap_version() -> str:
    import ldap

    info = ldap.get_option(ldap.OPT_API_INFO)
    return f"{info['vendor_version']} ({info['vendor_name']})"


def _slapd_version() -> str:
    from ldapslam.lab import LabError
    from ldapslam.lab.slapd.slapd import find_programs

    try:
        program = find_programs().slapd
    except LabError:
        return "(missing)"
    # It prints its version on standard error and, for -VV, ends with status 0.
    output = subprocess.run([program, "-VV"], capture_output=True, text=True).stderr
    return output.partition("slapd ")[2].split(" ")[0] or "(unknown)"
