# SPDX-License-Identifier: Apache-2.0
"""The readings of monitors in the store: once and whole."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ldapslam.base.errors import StoreError
from ldapslam.results.monitor_rows import (
    add_monitor_samples,
    describe_monitors,
    monitor_series,
)
from ldapslam.results.records import MonitorSample, MonitorSeries
from ldapslam.results.store import Store
from support.monitors import PROCESS, SERVER, add_monitors, descriptions, samples
from support.store import RUN_ID, Scenario, fill

SMALL = Scenario(measure_s=2, searches_per_s=20)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as store:
        fill(store, SMALL)
        yield store


def by_name(store: Store) -> dict[str, MonitorSeries]:
    return {one.description.name: one for one in monitor_series(store, RUN_ID)}


def test_readings_come_back_as_they_were_put_in(store: Store) -> None:
    add_monitors(store, RUN_ID, 5, failing_s=frozenset({3}))
    found = by_name(store)
    assert list(found) == [PROCESS, SERVER]
    assert [one.description for one in found.values()] == descriptions()[::-1]
    server = found[SERVER]
    put = [one for one in samples(5, failing_s=frozenset({3})) if one.monitor == SERVER]
    assert server.at_ns.tolist() == [one.at_ns for one in put]
    assert server.took_ns.tolist() == [one.took_ns for one in put]
    assert list(server.failures) == [3]
    assert np.isnan(server.values[3]).all()
    np.testing.assert_array_equal(server.values[2], put[2].values)


def test_a_reading_that_comes_again_changes_nothing(store: Store) -> None:
    add_monitors(store, RUN_ID, 3)
    add_monitors(store, RUN_ID, 5)
    changed = MonitorSample(SERVER, 0, 1, (math.nan,) * 7)
    add_monitor_samples(store, RUN_ID, "load1", [changed, changed])
    server = by_name(store)[SERVER]
    assert len(server.at_ns) == 6
    assert server.took_ns[0] != 1


def test_readings_are_each_agents_own(store: Store) -> None:
    add_monitors(store, RUN_ID, 3)
    add_monitors(store, RUN_ID, 4, agent="load2")
    found = [(one.agent, len(one.at_ns)) for one in monitor_series(store, RUN_ID)]
    assert found == [("load1", 4), ("load2", 5)] * 2


def test_a_reading_before_the_load_that_does_not_fit_its_monitor_is_missing(
    store: Store,
) -> None:
    describe_monitors(store, RUN_ID, "load1", descriptions())
    wrong = MonitorSample(PROCESS, -5, 7, (1.0,))
    add_monitor_samples(store, RUN_ID, "load1", [wrong])
    assert by_name(store)[PROCESS].at_ns.tolist() == [-5]
    assert np.isnan(by_name(store)[PROCESS].values).all()


def test_readings_of_an_unknown_run_are_refused(store: Store) -> None:
    with pytest.raises(StoreError):
        add_monitor_samples(store, "no-run", "load1", list(samples(1)))
