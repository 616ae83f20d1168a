# SPDX-License-Identifier: Apache-2.0
"""The commands for a fleet, as users call them: one coordinator, agents, operators."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role
from support.busy_host import VALIDITY
from support.command_line import Running, check_ldapslam, ldapslam
from support.lab import Lab
from support.submitting import start_fleet

JOB = (
    VALIDITY
    + """\
name: fleet
targets: {{directory: "{uri}"}}
run: {{duration: {duration}, interval: 500ms}}
agents: {{labels: {{site: a}}}}
streams:
  - name: readers
    target: directory
    load: {{clients: 4, think_time: 2ms}}
    operations:
      - search: {{base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-999])"}}
"""
)


@dataclass
class Fleet:
    """A coordinator and two agents, all of them `ldapslam` processes."""

    address: str
    folder: Path
    job: Path
    long_job: Path

    def call(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one operator's command."""
        ended = ldapslam(
            *arguments,
            cwd=self.folder,
            variables={"LDAPSLAM_COORDINATOR": self.address},
        )
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture(scope="module")
def fleet(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    job, long_job = folder / "job.yaml", folder / "long.yaml"
    job.write_text(JOB.format(uri=lab.supplier.uri, duration="1s"))
    long_job.write_text(JOB.format(uri=lab.supplier.uri, duration="60s"))
    (folder / "agent.toml").write_text('label = ["site=a"]\nno-realtime = true\n')
    with ExitStack() as stack:
        address = start_fleet(stack, folder, ["one", "two"], "--config", "agent.toml")
        yield Fleet(address, folder, job, long_job)


@pytest.fixture(scope="module")
def result(fleet: Fleet) -> dict[str, Any]:
    """What `submit --wait --json` printed of a run."""
    code, out, err = fleet.call("submit", fleet.job, "--wait", "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    assert f"its report: ldapslam report {result['run_id']}" in err
    return result


def test_submit_prints_the_run_id_alone_on_stdout(
    fleet: Fleet, result: dict[str, Any]
) -> None:
    assert result["verdict"] == "PASS"
    assert set(result["manifest"]["agents"]) == {"one", "two"}
    missed = "thresholds=[readers.search.response_time.p50 < 1us]"
    code, out, _ = fleet.call("submit", fleet.job, "--set", missed)
    assert code == 0
    run_id = out.removesuffix("\n")
    assert re.fullmatch(r"[0-9a-z-]+", run_id)

    code, out, err = fleet.call("fleet", "watch", run_id)
    assert code == 1, err
    assert out.startswith("FAIL  fleet")


@pytest.mark.parametrize(
    "what",
    [
        "bind={dn: cn=x, password: {env: HOME}}",
        "monitors=[{directory: directory, bind: {dn: cn=x, password: {file: /x}}}]",
        "streams[0]={name: s, target: directory, load: {clients: 1}, "
        'python: {class: "venv.__main__:X", operations: [x]}}',
    ],
    ids=["secret", "secret of a monitor", "class"],
)
def test_an_agent_gives_jobs_nothing_of_its_host_by_itself(
    fleet: Fleet, what: str
) -> None:
    code, out, err = fleet.call("submit", fleet.job, "--wait", "--set", what)
    assert (code, out) == (5, ""), err
    assert "may not" in err
    assert "allow-" in err
    assert list(fleet.folder.glob("**/pyvenv.cfg")) == []


def test_an_agent_explains_its_settings(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        'name = "load-7"\nallow-secret = ["env:PW"]\nmax-orphan = "5m"\n'
    )
    ended = check_ldapslam(
        *("agent", "--config", "agent.toml", "--max-rate", "5000/s", "--explain"),
        cwd=tmp_path,
        variables={"LDAPSLAM_COORDINATOR": "127.0.0.1:1", "XDG_STATE_HOME": "state"},
    )
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines()}
    assert rows["name"] == ["load-7", "agent.toml"]
    assert rows["coordinator"] == ["127.0.0.1:1", "variable", "LDAPSLAM_COORDINATOR"]
    assert rows["allow-secret"] == ["env:PW", "agent.toml"]
    assert rows["allow-target"] == ["loopback,", "ldapi", "default"]
    assert rows["max-orphan"] == ["5m", "agent.toml"]
    assert int(rows["workers"][0]) >= 1
    assert rows["max-rate"] == ["5000/s", "command", "line"]
    assert rows["never"][-1].endswith("state/ldapslam/spool/load-7")
    assert not (tmp_path / "state").exists(), "nothing was started"


def test_an_agent_that_would_not_start_says_so_with_its_settings(
    tmp_path: Path,
) -> None:
    authority = Authority.create(tmp_path / "pki", "fleet")
    authority.issue("olga", Role.OPERATOR).rename(tmp_path / "tls")
    ended = ldapslam("agent", "--tls", "tls", "--explain", cwd=tmp_path)
    assert ended.returncode == 2
    assert "allow-target" in ended.stdout
    assert "is the certificate of operator 'olga', this needs" in ended.stderr


def test_runs_are_listed_newest_first_and_shown_by_prefix_or_latest(
    fleet: Fleet, result: dict[str, Any]
) -> None:
    code, out, _ = fleet.call("list", "--json")
    runs = {run["run_id"]: run for run in json.loads(out)}
    assert code == 0
    submitted = [run["submitted_utc"] for run in runs.values()]
    assert submitted == sorted(submitted, reverse=True)
    run_id, newest = result["run_id"], next(iter(runs))
    assert runs[run_id]["state"] == "finished"
    assert isinstance(runs[run_id]["planned_ns"], int)

    _, out, _ = fleet.call("show", run_id)
    assert re.search(r"^agents +one, two$", out, re.MULTILINE)
    code, out, _ = fleet.call("list", "--limit", "1")
    assert code == 0
    assert newest in out
    for name, shown in ((run_id, run_id), (run_id[:-1], run_id), ("latest", newest)):
        code, out, _ = fleet.call("show", name)
        assert code == 0
        assert re.search(rf"^run +{shown}$", out, re.MULTILINE)


def test_what_is_not_there_ends_with_the_exit_code_of_its_kind(fleet: Fleet) -> None:
    for arguments, code, said in (
        (("show", "no-such-run"), 2, "no run 'no-such-run'"),
        (("fleet", "agents", "three"), 5, "knows no agent 'three'"),
        (("submit", fleet.job, "--set", "agents={count: 3}"), 5, "hint: "),
    ):
        found, out, err = fleet.call(*arguments)
        assert (found, out) == (code, "")
        assert said in err


def test_agents_are_listed_with_their_labels(fleet: Fleet) -> None:
    code, out, _ = fleet.call("fleet", "agents", "--json")
    assert code == 0
    agents = {agent["name"]: agent for agent in json.loads(out)}
    assert agents["one"]["labels"] == {"site": "a"}
    assert agents["two"]["host_facts"]["cores"] >= 1
    assert isinstance(agents["two"]["clock_offset_bound_ns"], int)
    assert agents["one"]["limits"]["targets"] == ["loopback", "ldapi"]
    load = agents["one"]["load"]
    assert 0 <= load["cpu_utilisation"] <= 1
    assert load["memory_available_bytes"] > 1 << 20
    assert load["spool_free_bytes"] > 0


def test_a_cancelled_run_keeps_what_it_measured(fleet: Fleet) -> None:
    _, out, _ = fleet.call("submit", fleet.long_job)
    run_id = out.strip()
    words = ("fleet", "watch", run_id, "--coordinator", fleet.address)
    with Running(*words, cwd=fleet.folder, name="watch") as watch:
        watch.wait_for_text(" measure ")
        assert fleet.call("fleet", "cancel", run_id)[0] == 0
        assert watch.wait() == 3, watch.stderr
    assert watch.stdout.startswith("INVALID")
    assert "cancelled" in watch.stdout
    _, out, _ = fleet.call("show", run_id, "--json")
    assert json.loads(out)["state"] == "cancelled"


def test_report_writes_the_formats_asked_for_and_prints_their_paths(
    fleet: Fleet, result: dict[str, Any]
) -> None:
    run_id = result["run_id"]
    code, out, err = fleet.call("report", run_id, "--format", "json,text")
    assert code == 0, err
    paths = [Path(line) for line in out.splitlines()]
    assert [path.name for path in paths] == ["report.txt", "result.json"]
    assert all((fleet.folder / path).is_file() for path in paths)

    # the same from the store itself, without a coordinator
    code, out, err = fleet.call(
        *("report", run_id, "--store", "results.sqlite"),
        *("--format", "csv", "--out", "x"),
    )
    assert code == 0, err
    assert out == "x/intervals.csv\n"


def test_an_agent_leaves_the_fleet_on_a_signal(fleet: Fleet) -> None:
    arguments = ["--coordinator", fleet.address, "--name", "guest"]
    spool = fleet.folder / "spool-guest"
    with Running(
        "agent", *arguments, "--spool", spool, cwd=fleet.folder, name="guest"
    ) as guest:
        guest.wait_for_text("registered")
        guest.process.send_signal(signal.SIGINT)
        assert guest.wait() == 0, guest.stderr
    _, _, after = guest.stderr.partition("leaving: ")
    assert len(after.splitlines()) == 1, "nothing to worry about"
    code, out, _ = fleet.call("fleet", "agents", "--json")
    assert code == 0
    states = {agent["name"]: agent["state"] for agent in json.loads(out)}
    assert states.get("guest", "left") == "left"
