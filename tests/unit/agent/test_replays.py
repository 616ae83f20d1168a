# SPDX-License-Identifier: Apache-2.0
"""An agent's part of a replay: its own connections, in a file for nobody else."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ldapslam.agent.engine.setup import with_traces
from ldapslam.base.errors import ConfigError
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, agent_plan

LOG = Path(__file__).parents[1] / "jobs/replay_logs/slapd-2.5.log"
CONNECTIONS = 8
RECORDS = 19 + 13  # requests, and an unbind for each of 13 sessions

JOB = """\
name: replayed
targets: {{directory: ldap://ds1.example.com}}
bind: {{dn: cn=loader, password: {{env: REPLAY_PASSWORD}}}}
run: {{duration: 10s}}
streams:
  - name: log
    target: directory
    load:
      trace: {{logs: [log], connections: {connections}, binds: {{as_configured: true}}}}
"""


def plan(index: int, count: int, connections: int = CONNECTIONS) -> AgentPlan:
    text = JOB.format(connections=connections)
    job = load_job_text(text, file="job", base=None, files={"log": LOG})
    return agent_plan(job, index, count, seed=1)


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAY_PASSWORD", "a secret")


def test_the_trace_is_for_its_owner_alone(tmp_path: Path) -> None:
    changed, facts = with_traces(plan(0, 1), tmp_path)
    [stream] = changed.streams
    assert stream.trace is not None
    path = Path(stream.trace)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.parent == tmp_path
    content = path.read_bytes()
    # 11 binds with a name; the others are anonymous
    assert content.count(b"a secret") == 11
    assert facts["log"]["requests"] == {
        **{"bind": 13, "search": 4, "compare": 1, "extended": 1}
    }
    assert sum(one["count"] for one in facts["log"]["skipped"]) == 8
    assert facts["log"]["count"] == RECORDS
    assert facts["log"]["expected_codes"] == {"bind": [49]}


def test_what_the_logs_server_answered_is_expected(tmp_path: Path) -> None:
    changed, _ = with_traces(plan(0, 1), tmp_path)
    codes = {one.name: one.expected_codes for one in changed.streams[0].operations}
    assert codes["bind"] == (49,)
    assert codes["compare"] == codes["search"] == ()


def test_agents_share_the_connections(tmp_path: Path) -> None:
    records = 0
    for index in range(3):
        folder = tmp_path / str(index)
        folder.mkdir()
        [stream] = with_traces(plan(index, 3), folder)[0].streams
        assert stream.trace is not None
        content = Path(stream.trace).read_bytes()
        records += int.from_bytes(content[8:16], "little")
        assert int.from_bytes(content[16:24], "little") == stream.connections
    assert records == RECORDS


def test_too_few_connections_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"needs {CONNECTIONS} connections"):
        with_traces(plan(0, 1, connections=3), tmp_path)


def test_a_plan_without_traces_stays_as_it_is(tmp_path: Path) -> None:
    text = JOB.format(connections=1)
    head, _, _ = text.partition("    load:")
    job = load_job_text(
        head + "    load: {clients: 1}\n    operations: [{search: {base: ''}}]\n",
        file="job",
        base=None,
    )
    before = agent_plan(job, 0, 1, seed=1)
    assert with_traces(before, tmp_path) == (before, {})
    assert list(tmp_path.iterdir()) == []
