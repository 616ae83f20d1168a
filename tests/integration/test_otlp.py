# SPDX-License-Identifier: Apache-2.0
"""`ldapslam run --otlp` and an OTLP receiver over HTTP, one that is away, one that is
deaf."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.metrics.v1 import metrics_pb2

from ldapslam.results.records import unix_ns
from support.command_line import ldapslam
from support.lab import Lab
from support.receivers import Request, Silence, Webhook

JOB = """\
job: told
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: {duration}, interval: 500ms}}
# these tests share the machine with others
validity: {{stall: 5s, disturbed_intervals: 100%, send_lag_p99: 1s, loop_share: 100%}}
streams:
  - name: readers
    target: directory
    load: {{closed: {{clients: 2, think_time: 2ms}}}}
    operations:
      - search: {{base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-999])"}}
"""


def told(lab: Lab, folder: Path, url: str, duration: str) -> dict[str, Any]:
    """The result of a run that is sent to a collector."""
    job = folder / "job.yaml"
    job.write_text(
        JOB.format(
            uri=lab.supplier.uri,
            dn=lab.admin_dn,
            password_file=lab.admin_password_file,
            duration=duration,
        )
    )
    ended = ldapslam("run", job, "--otlp", url, "--out", "o", cwd=folder)
    assert ended.returncode == 0, ended.stderr
    result: dict[str, Any] = json.loads((folder / "o" / "result.json").read_text())
    return result


def metrics_in(requests: list[Request]) -> Iterator[dict[str, metrics_pb2.Metric]]:
    """Of each export, by name."""
    for request in requests:
        if request.path == "/v1/metrics":
            export = ExportMetricsServiceRequest.FromString(request.body)
            [resource] = export.resource_metrics
            names = {one.key: one.value for one in resource.resource.attributes}
            assert names["service.name"].string_value == "ldapslam"
            [scope] = resource.scope_metrics
            yield {one.name: one for one in scope.metrics}


def test_a_collector_gets_each_interval_and_the_run_as_a_span(
    lab: Lab, tmp_path: Path
) -> None:
    with Webhook() as collector:
        url = f"http://127.0.0.1:{collector.port}/"
        result = told(lab, tmp_path, url, "2s")
        requests = list(collector.requests)
    exports = list(metrics_in(requests))
    # four intervals, and the drain where something was in flight
    assert len(exports) >= 4
    counts = []
    for export in exports:
        [times] = export["ldapslam.operation.response_time"].histogram.data_points
        assert sum(times.bucket_counts) == times.count
        assert len(times.bucket_counts) == len(times.explicit_bounds) + 1
        counts.append(times.count)
    assert counts == sorted(counts)
    readers = result["streams"]["readers"]["search"]
    assert counts[-1] == readers["completed"]
    times_ns = [
        export["ldapslam.stream.completed"].sum.data_points[0].time_unix_nano
        for export in exports
    ]
    t0_ns = unix_ns(result["manifest"]["t0_utc"])
    assert [round((one - t0_ns) / 5e8) for one in times_ns[:4]] == [1, 2, 3, 4]

    [told_of] = [one for one in requests if one.path == "/v1/traces"]
    trace = ExportTraceServiceRequest.FromString(told_of.body)
    [span] = trace.resource_spans[0].scope_spans[0].spans
    attributes = {one.key: one.value.string_value for one in span.attributes}
    assert attributes["ldapslam.run"] == result["run_id"]
    assert span.start_time_unix_nano == t0_ns
    assert span.end_time_unix_nano > t0_ns + 2_000_000_000
    assert [event.name for event in span.events] == ["measure"]
    assert [one for one in result["events"] if one["kind"] == "otlp_lost"] == []


@pytest.mark.parametrize("is_there", [True, False], ids=["deaf", "away"])
def test_without_a_collector_a_run_is_as_good_and_says_so(
    lab: Lab, tmp_path: Path, is_there: bool
) -> None:
    with Silence() as silence:
        port = silence.port if is_there else 1
        result = told(lab, tmp_path, f"http://127.0.0.1:{port}", "1s")
    assert result["verdict"] == "PASS"
    [lost] = [one["text"] for one in result["events"] if one["kind"] == "otlp_lost"]
    count, _, rest = lost.partition(" ")
    assert int(count) >= 3
    assert rest.startswith(f"exports to http://127.0.0.1:{port} were lost: ")
