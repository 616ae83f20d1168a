# SPDX-License-Identifier: Apache-2.0
"""Logs of real servers turned into load, and that load compared with the log.

A run makes a log; its analysis must find the run's mix and rate; its replay must make
the same requests at the same times, which the server's second log shows.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.jobs.load import load_job
from ldapslam.jobs.replay.log import Log
from ldapslam.jobs.replay.read import read_logs
from ldapslam.lab import Server
from support.busy_host import SETTING
from support.command_line import check_ldapslam, ldapslam
from support.figures import value_of
from support.lab import LOGGED, Lab

PEOPLE = "ou=people,dc=example,dc=com"
SECONDS = 4


@pytest.fixture(scope="module")
def logging_lab(slapd_installed: None) -> Iterator[Lab]:
    with Lab(entries=1_000, choices=LOGGED) as lab:
        yield lab


class LogSlice:
    """What a server's log gets while this is open, as a file of its own."""

    def __init__(self, log: Path, to: Path) -> None:
        self._log, self.path = log, to

    def __enter__(self) -> LogSlice:
        self._begin = self._log.stat().st_size
        return self

    def __exit__(self, *_: object) -> None:
        with self._log.open("rb") as stream:
            stream.seek(self._begin)
            self.path.write_bytes(stream.read())

    def read(self) -> Log:
        return read_logs([self.path])


def slapd_log(lab: Lab) -> Path:
    return lab.supplier.folder / "slapd.log"


MIXED = """\
name: mixed
targets: {{directory: {uri}}}
bind: {{dn: "{dn}", password: {{file: {password_file}}}}}
run: {{duration: {seconds}s}}
seed: 1
streams:
  - name: load
    target: directory
    load: {{rate: 200/s, arrivals: poisson, connections: 4}}
    operations:
      - weight: 3
        search:
          base: "{people}"
          filter: (uid=user.[0-999])
          attributes: [cn, mail]
      - {operation}
"""


def run_searches_and(operation: str, server: Server, folder: Path) -> dict[str, Any]:
    """Run three searches for each `operation`; ENTRY stands for one of the people."""
    job = MIXED.format(
        uri=server.uri,
        dn=server.admin_dn,
        password_file=server.admin_password_file,
        seconds=SECONDS,
        people=PEOPLE,
        operation=operation.replace("ENTRY", f'"uid=user.[0-999],{PEOPLE}"'),
    )
    (folder / "mixed.yaml").write_text(job)
    return result_of("run", "mixed.yaml", cwd=folder)


def identity(lab: Lab) -> list[str | Path]:
    return ["-D", lab.admin_dn, "-y", lab.admin_password_file]


def result_of(*arguments: Any, cwd: Path) -> dict[str, Any]:
    ended = ldapslam(*arguments, "--json", cwd=cwd)
    assert ended.stdout, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    assert "totals" in result, (ended.stdout, ended.stderr)
    return result


def trace_job(log: Path, uri: str, folder: Path, *options: Any) -> str:
    """Write the job that sends the log's requests again; the name of its file."""
    name = "trace.yaml"
    shutil.copy(log, folder / "traced.log")
    check_ldapslam(
        *("new", "--log", "--trace", "traced.log", uri, "-o", name, *options),
        cwd=folder,
    )
    return name


def at_speed(speed: str) -> list[str]:
    return ["--set", f"streams.log.load.trace.speed={speed}"]


def load_of(log: Log) -> Counter[str]:
    """Requests of the load: not of the set-up, and not of the preflight."""
    return Counter(
        one.kind
        for one in log.operations()
        if one.kind == "modify" or "uid=" in one.filter
    )


def test_the_analysis_of_a_runs_log_finds_its_mix_and_its_rate(
    logging_lab: Lab, tmp_path: Path
) -> None:
    uri = logging_lab.supplier.uri
    with LogSlice(slapd_log(logging_lab), tmp_path / "slapd.log") as logged:
        write = "modify: {dn: ENTRY, replace: {description: '[random:10]'}}"
        result = run_searches_and(write, logging_lab.supplier, tmp_path)
    sent = {name: totals["sent"] for name, totals in result["totals"].items()}
    log = logged.read()
    assert load_of(log) == {
        "search": sent["load.search"],
        "modify": sent["load.modify"],
    }
    check_ldapslam(
        *("new", "--log", logged.path, uri, *identity(logging_lab), "-o", "again.yaml"),
        cwd=tmp_path,
    )
    job = load_job(tmp_path / "again.yaml")
    stream = job.streams[0]
    commonest = sorted(stream.operations, key=lambda one: -one.weight)[:2]
    weights = {one.kind: one.weight for one in commonest}
    assert weights == {"search": sent["load.search"], "modify": sent["load.modify"]}
    search, modify = (one.body.model_dump() for one in commonest)
    assert re.fullmatch(
        r"\(uid=\[file:again-search(-\d+)?-value1.txt\]\)", search["filter"]
    )
    assert search["base"] == PEOPLE
    assert search["attributes"] == ["cn", "mail"]
    assert modify["dn"] == "[file:again-modify-dn.txt]"
    # the log has the seconds before the run, too: its rate is that of all of it
    assert stream.load.kind == "open"
    assert stream.load.rate is not None
    requests = sum(one.kind != "unbind" for one in log.operations())
    whole_per_s = requests / (log.duration_ns / 1e9)
    assert stream.load.rate.per_s == pytest.approx(whole_per_s, rel=0.05)
    # and the job that was made of it runs: as long as the log, which begins quietly
    duration = f"run.duration={log.duration_ns // 1_000_000}ms"
    again = result_of("run", "again.yaml", "--set", duration, cwd=tmp_path)
    assert again["totals"]["load.search-1"]["succeeded"] > 0


def searches(log: Log) -> dict[str, int]:
    """Time of each of the load's searches, by its filter, in ns."""
    return {
        one.filter: one.time_ns
        for one in log.operations()
        if one.kind == "search" and one.filter.startswith("(cn=u")
    }


@pytest.fixture(scope="module")
def recorded(
    logging_lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Log]:
    """The log of searches each of which is like no other one."""
    folder = tmp_path_factory.mktemp("recorded")
    with LogSlice(slapd_log(logging_lab), folder / "slapd.log") as logged:
        result = result_of(
            *("quick", "search", logging_lab.supplier.uri, "-b", PEOPLE, "-s", "base"),
            *("-f", "(cn=u[unique])", "-r", "200/s", "-c", "4", "-d", f"{SECONDS}s"),
            *("--set", "streams.load.load.arrivals=poisson", "--seed", "1"),
            cwd=folder,
        )
    log = logged.read()
    assert len(searches(log)) == result["totals"]["load.search"]["sent"] > 500
    return logged.path, log


@pytest.mark.parametrize("speed", [pytest.param(1, marks=pytest.mark.long), 5])
def test_a_replay_has_the_times_of_the_log(
    logging_lab: Lab, recorded: tuple[Path, Log], tmp_path: Path, speed: int
) -> None:
    path, original = recorded
    before = logging_lab.monitor_counts(logging_lab.supplier)
    with LogSlice(slapd_log(logging_lab), tmp_path / "replayed.log") as logged:
        job = trace_job(path, logging_lab.supplier.uri, tmp_path)
        result = result_of("run", job, *at_speed(f"{speed}x"), cwd=tmp_path)
    after = logging_lab.monitor_counts(logging_lab.supplier)
    wanted, got = searches(original), searches(logged.read())
    assert got.keys() == wanted.keys()
    sent = result["totals"]["log.search"]["sent"]
    asked = sum(
        facts["control_operations"][logging_lab.supplier.uri].get("search", 0)
        for facts in result["manifest"]["agents"].values()
    )
    assert after["search"] - before["search"] == sent + asked

    in_order = sorted(wanted, key=wanted.__getitem__)
    offsets = [got[one] - wanted[one] / speed for one in in_order]
    middle = statistics.median(offsets)
    late_ms = sorted(abs(offset - middle) / 1e6 for offset in offsets)
    # the median within a millisecond; what others do on this host moves some more
    assert late_ms[len(late_ms) // 2] < 1
    assert late_ms[len(late_ms) * 9 // 10] < 20
    # another speed would move the end away from the start; by medians: one late
    # request at either end is not the speed
    tenth = len(offsets) // 10
    drift = statistics.median(offsets[-tenth:]) - statistics.median(offsets[:tenth])
    length = (wanted[in_order[-1]] - wanted[in_order[0]]) / speed
    assert abs(drift) < 0.02 * length


@pytest.mark.parametrize(
    ("agents", "speed", "least_s"),
    [
        (2, "5x", 0.4),
        (2, "max", 0),
        pytest.param(1, "1x", 2.5, marks=pytest.mark.long),
    ],
)
def test_a_replay_ends_with_its_log_and_is_certified(
    logging_lab: Lab,
    recorded: tuple[Path, Log],
    tmp_path: Path,
    speed: str,
    least_s: float,
    agents: int,
) -> None:
    path, original = recorded
    job = trace_job(path, logging_lab.supplier.uri, tmp_path)
    with LogSlice(slapd_log(logging_lab), tmp_path / "replayed.log") as logged:
        ended = ldapslam(
            *("run", job, "--json", *at_speed(speed), "--agents", str(agents)),
            # what it searches for is not there
            *("--set", "thresholds=[log.search.empty <= 100%]"),
            *("--set", SETTING),
            cwd=tmp_path,
        )
    assert searches(logged.read()).keys() == searches(original).keys()
    result = json.loads(ended.stdout)
    assert (result["verdict"], result["reasons"]) == ("PASS", [])
    assert ended.returncode == ExitCode.PASS
    [facts, *_] = result["manifest"]["agents"].values()
    counted = result["totals"].values()
    assert sum(one["sent"] for one in counted) == facts["replays"]["log"]["count"]
    elapsed_s = value_of(result, "log.*.elapsed") / 1e6
    assert least_s < elapsed_s < least_s + 3
    assert result["measured_s"] == pytest.approx(elapsed_s, abs=1e-6)


def test_a_trace_is_checked_without_samples_and_runs_at_a_speed_that_overlaps(
    logging_lab: Lab, tmp_path: Path
) -> None:
    sample = Path(__file__).parents[1] / "unit/jobs/replay_logs/slapd-2.5.log"
    job = trace_job(sample, logging_lab.supplier.uri, tmp_path)
    ended = check_ldapslam("check", job, "--json", cwd=tmp_path)
    checked = json.loads(ended.stdout)
    assert checked["warnings"] == []
    assert checked["samples"] == [
        {"stream": "log", "operation": "replay", "untried": "the requests are a log's"}
    ]
    result = result_of("run", job, *at_speed("100x"), cwd=tmp_path)
    [facts] = result["manifest"]["agents"].values()
    replay = facts["replays"]["log"]
    planned = load_job(tmp_path / job).streams[0].load.total_connections
    assert replay["connections"] > planned
    # what it left out is in the result
    skipped = {
        one["operation"]: one["count"]
        for one in replay["skipped"]
        if "passwords" in one["reason"] or "`adds`" in one["reason"]
    }
    assert skipped == {"bind": 13, "add": 3}
    assert any("13 bind requests were not replayed" in note for note in result["notes"])


@pytest.mark.long
def test_the_log_of_389_ds_is_read_and_replayed(ds389: Lab, tmp_path: Path) -> None:
    server = ds389.supplier
    with LogSlice(server.folder / "log" / "access", tmp_path / "access") as logged:
        compare = "compare: {dn: ENTRY, attribute: sn, value: x}"
        result = run_searches_and(compare, server, tmp_path)
    sent = {name: totals["sent"] for name, totals in result["totals"].items()}
    kinds = Counter(
        one.kind
        for one in logged.read().operations()
        if one.kind == "compare" or "uid=" in one.filter
    )
    assert kinds == {
        "search": sent["load.search"],
        "compare": sent["load.compare"],
    }
    before = ds389.monitor_counts(server)
    job = trace_job(logged.path, server.uri, tmp_path, *identity(ds389))
    replayed = result_of("run", job, *at_speed("2x"), cwd=tmp_path)
    after = ds389.monitor_counts(server)
    assert after["compare"] - before["compare"] == sent["load.compare"]
    assert replayed["totals"]["log.compare"]["succeeded"] == sent["load.compare"]
    assert replayed["totals"]["log.search"]["succeeded"] >= sent["load.search"]
