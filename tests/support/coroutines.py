# SPDX-License-Identifier: Apache-2.0
"""Tests that are coroutines, and the event loop that they share with their fixtures."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal

import pytest

_TIMEOUT_S = 60  # for what never comes


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.fixturenames.insert(0, "runner")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Literal[True] | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {
        name: pyfuncitem.funcargs[name]
        for name in inspect.signature(pyfuncitem.obj).parameters
    }
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner)
    runner.run(_in_time(pyfuncitem.obj, arguments))
    return True


async def _in_time(
    test: Callable[..., Coroutine[Any, Any, None]], arguments: dict[str, Any]
) -> None:
    async with asyncio.timeout(_TIMEOUT_S):
        await test(**arguments)
