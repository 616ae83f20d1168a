# SPDX-License-Identifier: Apache-2.0
"""Figures of runs in OpenTelemetry's terms, sent by OTLP over HTTP.

Its exporters take headers, certificates and compression from the environment
(OTEL_EXPORTER_OTLP_HEADERS, ...). The only module that imports opentelemetry, which is
an extra. Everything here may block: not for the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Status, StatusCode
from prometheus_client.metrics_core import Metric as Family

from ldapslam import __version__
from ldapslam.results.records import RunRecord, unix_ns

#: Of one export, attempts included.
TIMEOUT_S = 5.0
_CUMULATIVE = AggregationTemporality.CUMULATIVE
#: How names of Prometheus end -> unit, which is no part of a name here.
_UNITS = {"_per_second": "1/s", "_seconds": "s", "_ratio": "1", "_bytes": "By"}


class OtlpLink:
    """To one collector; the methods return why something was not taken, or nothing."""

    def __init__(self, url: str) -> None:
        """`url` is that of the collector, without the paths of OTLP."""
        base = url.rstrip("/")
        self._resource = Resource.create(
            {"service.name": "ldapslam", "service.version": __version__}
        )
        self._metrics = OTLPMetricExporter(f"{base}/v1/metrics", timeout=TIMEOUT_S)
        self._spans = OTLPSpanExporter(f"{base}/v1/traces", timeout=TIMEOUT_S)
        self._reasons = _Reasons()

    def send_figures(
        self, families: Sequence[Family], start_ns: int, time_ns: int
    ) -> str:
        """`start_ns`: what totals count from; both in Unix time."""
        metrics = [
            metric for one in families if (metric := _metric(one, start_ns, time_ns))
        ]
        scope = ScopeMetrics(InstrumentationScope("ldapslam"), metrics, "")
        data = MetricsData([ResourceMetrics(self._resource, [scope], "")])
        result = self._metrics.export(data)
        return self._reasons.why(result is MetricExportResult.SUCCESS)

    def send_span(self, record: RunRecord) -> str:
        """A run, from T0 to its end."""
        result = self._spans.export([self._span(record)])
        return self._reasons.why(result is SpanExportResult.SUCCESS)

    def close(self) -> None:
        """Ends what is being sent."""
        self._metrics.shutdown()
        self._spans.shutdown()  # type: ignore[no-untyped-call]

    def _span(self, record: RunRecord) -> ReadableSpan:
        provider = TracerProvider(resource=self._resource, shutdown_on_exit=False)
        t0_ns = unix_ns(record.t0_utc or record.submitted_utc)
        attributes: dict[str, str | int] = {
            "ldapslam.run": record.run_id,
            "ldapslam.job": record.job_name,
            "ldapslam.state": record.state,
            "ldapslam.agents": len(record.agents),
        }
        if record.verdict is not None:
            attributes["ldapslam.verdict"] = record.verdict
        span = provider.get_tracer("ldapslam").start_span(
            "run", attributes=attributes, start_time=t0_ns
        )
        for phase in record.plan.get("phases", ()):
            span.add_event(phase["name"], timestamp=t0_ns + phase["start_ns"])
        if record.state != "finished" or record.verdict not in (None, "PASS"):
            span.set_status(Status(StatusCode.ERROR, record.state_detail or None))
        span.end(unix_ns(record.finished_utc or record.submitted_utc))
        return cast(ReadableSpan, span)


class _Reasons(logging.Handler):
    """What the exporters log while they send something: they return no reason."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._first = ""
        logger = logging.getLogger("opentelemetry.exporter")
        logger.propagate = False
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._first = self._first or record.getMessage()

    def why(self, is_taken: bool) -> str:
        """Of the last export; empty when it was taken."""
        first, self._first = self._first, ""
        return "" if is_taken else first or "no reason given"


def _metric(family: Family, start_ns: int, time_ns: int) -> Metric | None:
    """A family of metrics of Prometheus; None when it is empty."""
    if not family.samples:
        return None
    name, unit = family.name, ""
    for suffix, of in _UNITS.items():
        if name.endswith(suffix):
            name, unit = name.removesuffix(suffix), of
            break
    points = [
        NumberDataPoint(one.labels, start_ns, time_ns, one.value)
        for one in family.samples
    ]
    data: Gauge | Sum | Histogram
    match family.type:
        case "gauge":
            data = Gauge(points)
        case "counter":
            data = Sum(points, _CUMULATIVE, is_monotonic=True)
        case _:
            data = Histogram(_histograms(family, start_ns, time_ns), _CUMULATIVE)
    # its first parts are what it is of
    return Metric(name.replace("_", ".", 2), family.documentation, unit, data)


def _histograms(
    family: Family, start_ns: int, time_ns: int
) -> list[HistogramDataPoint]:
    series: dict[frozenset[tuple[str, str]], dict[str, Any]] = {}
    for sample in family.samples:
        labels = dict(sample.labels)
        border = labels.pop("le", None)
        of = series.setdefault(
            frozenset(labels.items()), {"labels": labels, "up_to": {}}
        )
        if border is None:
            of[sample.name.rpartition("_")[2]] = sample.value
        else:
            of["up_to"][float(border)] = int(sample.value)
    return [_histogram(of, start_ns, time_ns) for of in series.values()]


def _histogram(
    of: Mapping[str, Any], start_ns: int, time_ns: int
) -> HistogramDataPoint:
    borders, counts = list(of["up_to"]), list(of["up_to"].values())
    unknown: Any = None  # the least and the greatest value are left out
    return HistogramDataPoint(
        attributes=of["labels"],
        start_time_unix_nano=start_ns,
        time_unix_nano=time_ns,
        count=counts[-1],
        sum=of["sum"],
        bucket_counts=np.diff(counts, prepend=0).tolist(),
        explicit_bounds=borders[:-1],  # the last is infinity
        min=unknown,
        max=unknown,
    )
