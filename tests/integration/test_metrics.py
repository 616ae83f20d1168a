# SPDX-License-Identifier: Apache-2.0
"""Metrics of real runs, at both endpoints: a local run's and a coordinator's."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from collections import defaultdict
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from support.command_line import Running, ldapslam
from support.dashboard import asked
from support.fleet import FleetOfProcesses, job_text
from support.intervals import stored_intervals
from support.lab import Lab

JOB = """\
name: shown
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
run: {{duration: {duration}, interval: 1s}}
streams:
  - name: readers
    target: directory
    load: {{clients: 4}}
    operations:
      - search: {{base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-999])"}}
      - delete: {{dn: "uid=nobody,ou=people,dc=example,dc=com"}}
  - name: arrivals
    target: directory
    load: {{rate: 20/s}}
    operations:
      - compare: {{dn: "uid=user.1,{people}", attribute: uid, value: user.1}}
"""


def job_of(lab: Lab, duration: str) -> str:
    return lab.job(JOB, duration=duration)


class Scraped:
    """All samples of one endpoint, scraped as often as it takes."""

    def __init__(self, url: str) -> None:
        self._url = url
        #: Name -> labels that its samples have.
        self.labels: dict[str, set[str]] = defaultdict(set)
        self.last: list[Sample] = []

    def again(self) -> None:
        with urllib.request.urlopen(self._url, timeout=10) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            self.last = [sample for family in families for sample in family.samples]
        for sample in self.last:
            self.labels[sample.name] |= set(sample.labels)

    def values(self, name: str, **labels: str) -> list[float]:
        return [
            sample.value
            for sample in self.last
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def missing(self) -> dict[str, set[str]]:
        """What the dashboard asks for and nothing has."""
        return {
            name: labels - self.labels.get(name, set())
            for name, labels in asked().items()
            if name not in self.labels or not labels <= self.labels[name]
        }


def url_in(text: str) -> str:
    found = re.search(r"metrics on (http://\S+)", text)
    assert found is not None, text
    return found[1]


def check_histograms(scraped: Scraped) -> None:
    """Counts rise with the border, and are those of the responses."""
    of = {"stream": "readers", "operation": "search", "outcome": "succeeded"}
    for metric in ("response_time", "service_time"):
        name = f"ldapslam_operation_{metric}_seconds"
        counts = scraped.values(f"{name}_bucket", **of)
        assert counts == sorted(counts)
        [count] = scraped.values(f"{name}_count", **of)
        assert counts[-1] == count > 0
        [total_s] = scraped.values(f"{name}_sum", **of)
        assert 0 < total_s < 60 * count
        assert scraped.values("ldapslam_operation_requests_total", **of) == [count]
    codes = {"operation": "delete", "result_code": "noSuchObject"}
    [refused] = scraped.values("ldapslam_operation_responses_total", **codes)
    assert refused > 0
    assert scraped.values("ldapslam_stream_clients", stream="readers") == [4]
    assert scraped.values("ldapslam_stream_clients", stream="arrivals") == []


def test_a_local_run_shows_what_the_dashboard_asks_for_while_it_goes(
    lab: Lab, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(job_of(lab, "30s"))
    with Running("run", job, "--metrics", "0", cwd=tmp_path) as running:
        running.wait_for_text(" measure ")
        scraped = Scraped(url_in(running.stderr))
        # the command judges its run after the end of it
        while scraped.missing().keys() - {"ldapslam_run_verdict"}:
            assert running.process.poll() is None, (scraped.missing(), running.stderr)
            scraped.again()
        check_histograms(scraped)
        running.interrupt()
        running.wait()
    with pytest.raises(urllib.error.URLError):
        scraped.again()


def test_a_coordinator_shows_what_the_dashboard_asks_for(
    fleet: FleetOfProcesses, lab: Lab
) -> None:
    options = ("--listen", fleet.address, "--store", fleet.store, "--metrics", "0")
    with Running("coordinator", *options, cwd=fleet.folder) as running:
        running.wait_for_text("coordinator on ")
        url = url_in(running.stderr)
        scraped = Scraped(url)
        fleet.start_agent("a")
        fleet.wait_for_agents("a", timeout_s=90)
        scraped.again()
        assert scraped.values("ldapslam_agents", state="idle") == [1]
        for bound in ("calls_of_a_caller", "store_writes", "live_bytes_of_a_run"):
            [used] = scraped.values("ldapslam_bound_used", bound=bound)
            [most] = scraped.values("ldapslam_bound_most", bound=bound)
            assert 0 <= used < most
            assert scraped.values("ldapslam_bound_exceeded_total", bound=bound) == [0]
        run_id = fleet.submit(job_of(lab, "3s"))

        def is_complete() -> bool:
            scraped.again()
            return not scraped.missing()

        fleet.wait_until(is_complete, "all that the dashboard asks for", 180)
        check_histograms(scraped)
        assert scraped.values("ldapslam_runs_ended_total", state="finished") == [1]
        # a while after its end the totals are there, and are those of the store
        with fleet.opened_store() as store:
            total = sum(
                row.completed
                for record in stored_intervals(store, run_id)
                for row in record.operations
            )
        completed = scraped.values("ldapslam_stream_completed_total", run=run_id)
        assert sum(completed) == total > 0
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(url.removesuffix("metrics"), timeout=10)
        refused.value.close()


def test_an_address_that_is_taken_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(job_text())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = ldapslam(
            *("run", job, "--metrics", str(port), "--out", "o"), cwd=tmp_path
        )
    assert ended.returncode == 2
    assert f"--metrics: cannot listen on 127.0.0.1:{port}" in ended.stderr
    assert "run using the port?" in ended.stderr
    assert not (tmp_path / "o").exists()
