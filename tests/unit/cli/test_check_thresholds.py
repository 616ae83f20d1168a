# SPDX-License-Identifier: Apache-2.0
"""What is said of a job that may not do what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.cli.submission import unsupported_thresholds, warnings_of
from ldapslam.jobs.load import load_job, load_job_text

JOBS = Path(__file__).parents[3] / "configs/jobs"

JOB = """\
job: few
targets: {{server: "ldap://127.0.0.1:1", replica: "ldap://127.0.0.1:2"}}
run: {{warm_up: 1m, duration: 10s}}
thresholds: ["{threshold}"]
streams:
  - name: open
    target: server
    load: {{open: {{rate: 100/s, connections: 1}}}}
    operations:
      - search: {{base: ""}}
        weight: 3
      - sequence:
          - compare: {{dn: "cn=a", attribute: cn, value: a}}
            repeat: 4
          - unbind: {{}}
      - search: {{base: "", page_size: 10}}
        name: paged
  - name: counted
    target: server
    load: {{closed: {{clients: 1}}}}
    count: 999
    operations: [{{search: {{base: ""}}}}]
  - name: closed
    target: server
    load: {{closed: {{clients: 1}}}}
    operations: [{{search: {{base: ""}}}}]
  - name: probe
    target: server
    type: replication_probe
    options: {{replicas: replica, dn: "cn=probe"}}
"""


def warnings(threshold: str) -> list[str]:
    job = load_job_text(JOB.format(threshold=threshold), file="few.yaml", base=None)
    return list(unsupported_thresholds(job))


@pytest.mark.parametrize(
    ("threshold", "planned"),
    [
        # 600 of 1,000 arrivals, and 200 sessions with four compares
        ("open.search.response_time.p99.9 < 1s", "about 600 of open.search"),
        ("open.search.response_time.p99 < 1s", "about 600 of open.search"),
        ("open.compare.service_time.p99 < 1s", "about 800 of open.compare"),
        ("counted.search.response_time.p99 < 1s", "about 999 of counted.search"),
        ("probe.write.response_time.p95 < 1s", "about 50 of probe.write"),
        ("probe.propagation-replica.response_time.p90 < 1s", "about 50 of probe.prop"),
    ],
)
def test_too_few_requests_are_told(threshold: str, planned: str) -> None:
    (warning,) = warnings(threshold)
    assert repr(threshold) in warning
    assert planned in warning


def test_each_operation_of_a_threshold_for_all_is_named() -> None:
    told = " ".join(warnings("*.*.response_time.p99 < 1s"))
    for name in ("open.search", "open.compare", "counted.search", "probe.write"):
        assert f" of {name} " in told


@pytest.mark.parametrize(
    "threshold",
    [
        "open.search.response_time.p95 < 1s",
        "open.search.response_time.max < 1s",
        "open.search.throughput > 1/s",
        "open.paged.response_time.p99_99 < 1s",
        "counted.search.response_time.p95 < 1s",
        "closed.search.response_time.p99_99 < 1s",
        "closed.*.connect_time.p99 < 1s",
        "probe.write.response_time.p50 < 1s",
    ],
)
def test_nothing_is_said_where_there_are_enough_or_that_is_not_known(
    threshold: str,
) -> None:
    assert warnings(threshold) == []


def test_requests_as_somebody_else_are_told() -> None:
    bind = "bind: {dn: cn=a, password: x}}, {"
    text = JOB.format(threshold="open.*.errors < 1%")
    text = text.replace("[{search:", "[{" + bind + "search:", 1)
    job = load_job_text(text, file="few.yaml", base=None)
    (warning,) = warnings_of(job)
    assert warning.startswith(
        "stream counted: 'search' is made as whom 'bind' has bound"
    )


@pytest.mark.parametrize(
    "path", sorted(JOBS.glob("*.yaml")), ids=lambda path: str(path.name)
)
def test_ready_jobs_do_what_they_say(path: Path) -> None:
    assert list(warnings_of(load_job(path))) == []
