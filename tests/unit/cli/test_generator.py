# SPDX-License-Identifier: Apache-2.0
"""`check --generator`: which figures make a machine unfit, and what is advised."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest

from ldapslam.cli.measure.generator import Fitness, Host, Load, judge

LOAD = Load(
    completed=20_000,
    failed=0,
    throughput_per_s=5_000.0,
    cpu_us_per_op=4.0,
    percentiles_us={
        "send_lag": {"p50": 5.0, "p90": 20.0, "p99": 50.0, "p99_9": 170.0},
        "receive_lag": {"p50": 20.0, "p90": 40.0, "p99": 70.0, "p99_9": 100.0},
    },
    engine_facts={"realtime": True, "kernel_stamps": True},
)
HOST = Host(
    facts={"clock_source": "tsc", "cores_usable": 2},
    files_soft=1_024,
    files_hard=resource.RLIM_INFINITY,
    ephemeral_ports=28_232,
    steal_share=0.0,
    load_average=0.1,
)


def with_send_lag_p99(value_us: float | None) -> Load:
    return replace(LOAD, percentiles_us={"send_lag": {"p99": value_us}})


def test_a_good_machine_has_no_remarks() -> None:
    assert judge("5k/s", LOAD, HOST) == ()
    assert Fitness("5k/s", LOAD, LOAD, HOST).is_fit


@pytest.mark.parametrize(
    ("pacing", "host", "said", "is_fatal"),
    [
        (with_send_lag_p99(1_001.0), HOST, "send lag p99 is 1.00 ms", True),
        (with_send_lag_p99(None), HOST, "send lag p99 is unknown", True),
        (replace(LOAD, failed=3), HOST, "3 requests to the responder failed", True),
        (LOAD, replace(HOST, steal_share=0.2), "took 20% of the CPU", False),
        (
            replace(LOAD, engine_facts={"realtime": False, "kernel_stamps": True}),
            HOST,
            "SCHED_FIFO was not granted",
            False,
        ),
        (
            replace(LOAD, engine_facts={"realtime": True, "kernel_stamps": False}),
            HOST,
            "no receive timestamps",
            False,
        ),
        (LOAD, replace(HOST, facts={"clock_source": "hpet"}), "hpet is slow", False),
        (LOAD, replace(HOST, files_hard=1_024), "may open 1,024 files", False),
        (LOAD, replace(HOST, facts={"cores_usable": 1}), "one CPU alone", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_fault_has_a_remark_with_a_remedy(
    pacing: Load, host: Host, said: str, is_fatal: bool
) -> None:
    remarks = judge("5k/s", pacing, host)
    matching = [remark for remark in remarks if said in remark.text]
    assert len(matching) == 1, remarks
    assert matching[0].is_fatal == is_fatal
    assert matching[0].remedy
    assert Fitness("5k/s", LOAD, pacing, host, remarks).is_fit is not is_fatal


def test_fatal_remarks_come_first() -> None:
    granted = {"realtime": False, "kernel_stamps": True}
    pacing = replace(with_send_lag_p99(5_000.0), engine_facts=granted)
    assert [remark.is_fatal for remark in judge("5k/s", pacing, HOST)] == [True, False]
