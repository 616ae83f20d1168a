# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make, and the remedy that each is answered with.

Those of people who know ldapsearch, searchrate, ldclt, SLAMD, k6 and wrk among them. No
server is needed for these; tests/integration/test_mistakes.py has the others.
"""

from __future__ import annotations

import shlex
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldapslam.cli import main
from ldapslam.jobs.load import load_job
from ldapslam.results.store import Store

JOB = """\
job: lookups
targets: {directory: "ldap://ds1.example.com"}
run: {duration: 1s}
streams:
  - name: readers
    target: directory
    load: {closed: {clients: 2}}
    operations:
      - search: {base: "dc=example,dc=com", filter: "(uid=user.[0-9])"}
"""
SEARCH = 'search: {base: "dc=example,dc=com", filter: "(uid=user.[0-9])"}'
CLOSED = "{closed: {clients: 2}}"
NO_COORDINATOR = "--coordinator 127.0.0.1:1"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("LDAPSLAM_COORDINATOR", "LDAPSLAM_TLS_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("ldapslam.cli.runs._listens", lambda _: False)
    Path("good.yaml").write_text(JOB)
    Path("ca.pem").touch()
    head, _, stream = JOB.replace(CLOSED, "{open: {rate: 50/s}}").partition("  - ")
    Path("open.yaml").write_text(f"{head}  - {stream}")
    Path("jobs.yaml").write_text("study: x\njobs: [search.yaml, b/b.yaml]\n")
    two = f"{head}  - {stream}  - {stream.replace('readers', 'others')}"
    Path("two.yaml").write_text(two)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], command: str) -> tuple[int, str]:
    """The exit code, and what was said in one line: no matter where lines end."""
    code = main.run(shlex.split(command))
    return code, " ".join(capsys.readouterr().err.split())


def changed(old: str, new: str) -> str:
    assert old in JOB
    return JOB.replace(old, new)


JOB_FILES = {
    "a tab": (changed("    target:", "\ttarget:"), "indent with spaces"),
    "no space after a colon": (
        changed("target: directory", "target:directory"),
        "write a space after the colon: target: directory",
    ),
    "a DN without quotes": (
        changed('"dc=example,dc=com"', "dc=example,dc=com"),
        "quote a DN within { }",
    ),
    "braces without quotes": (
        changed('"(uid=user.[0-9])"', "(uid={0})"),
        "quote a text",
    ),
    "a key twice": (JOB + "run: {duration: 2s}\n", "first in line 3"),
    "yes for true": (JOB + "tls: {start_tls: yes}\n", "write true, without quotes"),
    "no unit of time": (changed("1s", "30"), "write the unit: 30s"),
    "a long unit": (changed("1s", "30 sec"), "write 30s"),
    "minutes": (changed("1s", "5min"), "write 5m"),
    "no unit of a rate": (
        changed(CLOSED, "{open: {rate: 500}}"),
        "write the unit: 500/s",
    ),
    "tps": (changed(CLOSED, "{open: {rate: 500tps}}"), "write 500/s"),
    "a rate without a loop": (
        changed(CLOSED, "{rate: 500/s}"),
        "it is a key of `open`: open: {rate: …}",
    ),
    "clients without a loop": (
        changed(CLOSED, "{clients: 5}"),
        "it is a key of `closed`: closed: {clients: …}",
    ),
    "k6's users of an open loop": (
        changed(CLOSED, "{open: {rate: 5/s, preAllocatedVUs: 5}}"),
        "did you mean 'connections'?",
    ),
    "k6's executor": (
        changed(CLOSED, "{executor: constant-arrival-rate, open: {rate: 5/s}}"),
        "constant-arrival-rate is load: {open: {rate: 100/s}}",
    ),
    "k6's unit of time": (
        changed(CLOSED, "{open: {rate: 5/s, timeUnit: 1s}}"),
        "the unit is part of the rate: rate: 100/s",
    ),
    "k6's users": (changed("clients: 2", "vus: 2"), "did you mean 'clients'?"),
    "wrk's threads": (changed("clients: 2", "threads: 2"), "did you mean 'clients'?"),
    "a number with a word": (changed("clients: 2", "clients: 2 users"), "write 2,"),
    "both loops": (
        changed(CLOSED, "{closed: {clients: 2}, open: {rate: 5/s}}"),
        "keep one",
    ),
    "an attribute to modify": (
        changed(SEARCH, 'modify: {dn: "cn=x,dc=y", description: z}'),
        "replace: {description: …}",
    ),
    "an attribute to add": (
        changed(SEARCH, 'add: {dn: "cn=x,dc=y", entry: {cn: x}, sn: z}'),
        "entry: {sn: …}",
    ),
    "attributes in one text": (
        changed('filter: "', 'attributes: "cn mail", filter: "'),
        "write [cn, mail]",
    ),
    "ldapsearch's scope": (
        changed('filter: "', 'scope: subtree, filter: "'),
        "write sub",
    ),
    "an operation mistyped": (
        changed("search: {", "serach: {"),
        "did you mean 'search'?",
    ),
    "a filter without parentheses": (
        changed("(uid=user.[0-9])", "uid=user.[0-9]"),
        "a '(' is missing here hint: write (uid=user.[0-9])",
    ),
    "a filter not closed": (
        changed("(uid=user.[0-9])", "(&(uid=a)(cn=b)"),
        "the '(' of character 1 is not closed",
    ),
    "a range backwards": (changed("[0-9]", "[9-0]"), "write [0-9]"),
    "a file of values that is missing": (
        changed("user.[0-9]", "[file:users.txt]"),
        "paths are relative to the job file",
    ),
    "a host without a scheme": (
        changed("ldap://ds1.example.com", "ds1.example.com:389"),
        "write 'ldap://ds1.example.com:389'",
    ),
    "a URI with a base": (
        changed("example.com", "example.com/dc=example"),
        "the base DN belongs to the operation",
    ),
    "a web address": (changed("ldap://", "https://"), "schemes: ldap, ldaps, ldapi"),
    "StartTLS on ldaps": (
        changed("ldap://", "ldaps://") + "tls: {start_tls: true}\n",
        "leave start_tls out",
    ),
    "a role mistyped": (
        changed("target: dir", "target: repl"),
        "did you mean 'directory'?",
    ),
    "a password in the file": (
        JOB + 'bind: {dn: "cn=admin", password: secret}\n',
        "write {env: NAME} or {file: /absolute/path}",
    ),
    "two sources of a password": (
        JOB + 'bind: {dn: "cn=admin", password: {env: A, file: /b}}\n',
        "keep one",
    ),
    "a bind name that is no DN": (
        JOB + "bind: {dn: admin@example.com, password: {env: A}}\n",
        "such as 'uid=user.1,ou=people",
    ),
    "k6's percentile": (JOB + "thresholds: ['p(99) < 5ms']\n", "write 'p99 < 5ms'"),
    "k6's metric of times": (
        JOB + "thresholds: ['http_req_duration.p95 < 50ms']\n",
        "write 'p95'",
    ),
    "k6's metric of failures": (
        JOB + "thresholds: ['http_req_failed < 1%']\n",
        "write 'errors < 1%'",
    ),
    "k6's checks": (
        JOB + "thresholds: ['checks > 0.99']\n",
        "write 'errors < 1%'",
    ),
    "k6's dropped iterations": (
        JOB + "thresholds: ['dropped_iterations < 10']\n",
        "write 'errors'",
    ),
    "k6's threshold without quotes": (
        JOB + "thresholds: [http_req_failed: rate<0.01]\n",
        "write 'errors < 1%'",
    ),
    "k6's thresholds as they are": (
        JOB + "thresholds: {http_req_duration: ['p(95)<500', {threshold: 'p(99)<900'}],"
        " http_req_failed: ['rate<0.01']}\n",
        "write thresholds: ['p95 < 500ms', 'p99 < 900ms', 'errors < 1%']",
    ),
    "thresholds as a mapping": (
        JOB + "thresholds: {p99: 5ms}\n",
        "write thresholds: ['p99 < 5ms']",
    ),
    "an average": (JOB + "thresholds: ['avg < 5ms']\n", "write 'mean < 5ms'"),
    "latency": (JOB + "thresholds: ['latency < 5ms']\n", "write 'response_time'"),
    "a comparison backwards": (JOB + "thresholds: ['p99 =< 5ms']\n", "write <="),
    "a percentile that is not kept": (
        JOB + "thresholds: ['p99.5 < 5ms']\n",
        "known: mean, min, p50",
    ),
    "a limit without a unit": (
        JOB + "thresholds: ['p99 < 5']\n",
        "write the unit: 5s, 5ms or 5us",
    ),
    "a share without a unit": (
        JOB + "thresholds: ['errors < 1']\n",
        "write the unit: 1%",
    ),
    "a stream mistyped": (
        JOB + "thresholds: ['reader.search.p99 < 5ms']\n",
        "did you mean 'readers'?",
    ),
    "a number of agents": (JOB + "agents: 3\n", "write agents: {count: 3}"),
    "a key at the wrong level": (
        JOB + "duration: 5s\n",
        "it is a key of `run`: run: {duration: …}",
    ),
    "threads of the job": (
        JOB + "threads: 5\n",
        "a key of a stream's `load.closed`: load: {closed: {clients: …}}",
    ),
    "a rate of the job": (
        JOB + "rate: 5/s\n",
        "a key of a stream's `load.open`: load: {open: {rate: …}}",
    ),
    "clients of the stream": (
        changed("    load:", "    clients: 5\n    load:"),
        "a key of a stream's `load.closed`: load: {closed: {clients: …}}",
    ),
    "threads of the run": (
        changed("{duration: 1s}", "{duration: 1s, threads: 4}"),
        "load: {closed: {clients: …}}",
    ),
    "a duration of the stream": (
        changed("    load:", "    duration: 5s\n    load:"),
        "it is a key of the job's `run`: run: {duration: …}",
    ),
    "a rate of the operation": (
        changed(SEARCH, f"{SEARCH}\n        rate: 5/s"),
        "a key of a stream's `load.open`: load: {open: {rate: …}}",
    ),
    "a stream without one of two targets": (
        changed("{directory:", '{other: "ldap://ds2", directory:').replace(
            "    target: directory\n", ""
        ),
        "the key 'target' is missing",
    ),
    "a study": ("study: x\naxes: {a: [1]}\n", "`ldapslam study job.yaml` runs it"),
    "target for targets": (
        changed("targets:", "target:"),
        "unknown key 'target' hint: did you mean 'targets'?",
    ),
    "a server's key": (changed("targets:", "server:"), "did you mean 'targets'?"),
    "k6's stages": (
        changed(CLOSED, "{open: {stages: [{duration: 5s, target: 5/s}]}}"),
        "did you mean 'ramp_to'?",
    ),
    "two operations in one item": (
        changed(SEARCH, f"{SEARCH}\n        unbind: {{}}"),
        "give each an item, with a dash, of its own",
    ),
    "a weight within the operation": (
        changed("search: {", "search: {weight: 2, "),
        "beside `search`, not in it",
    ),
    "a shell's variable for a password": (
        JOB + 'bind: {dn: "cn=admin", password: "${LDAP_PW}"}\n',
        "write {env: LDAP_PW}",
    ),
    "a user for a DN": (
        JOB + 'bind: {user: "cn=admin", password: {env: A}}\n',
        "did you mean 'dn'?",
    ),
    "curl's authority": (JOB + "tls: {cacert: x.pem}\n", "did you mean 'ca_file'?"),
    "ldapsearch's long scope": (
        changed('filter: "', 'scope: onelevel, filter: "'),
        "write one",
    ),
    "two parentheses": (
        changed("(uid=user.[0-9])", "((uid=user.[0-9]))"),
        "write one '(', or (&(…)(…))",
    ),
    "a comma within a value": (
        changed("base: ", 'base: "cn=Weiss, Peter [1-5],dc=com", x: '),
        "a comma within a value is written '\\,'",
    ),
    "a range with dots": (changed("[0-9]", "[0..9]"), "write [0-9]"),
    "a time of a clock": (changed("1s", "1:30"), "write 1m30s"),
    "requests per second": (JOB + "thresholds: ['rps > 5/s']\n", "write 'throughput'"),
    "an error rate": (JOB + "thresholds: ['error_rate < 1%']\n", "write 'errors'"),
    "a percentile in words": (JOB + "thresholds: ['95th < 5ms']\n", "write 'p95'"),
    "equal to": (JOB + "thresholds: ['errors == 0%']\n", "write <= 0%"),
    "two comparisons": (
        JOB + "thresholds: ['p99 < 5ms and errors < 1%']\n",
        "write each as an item of the list",
    ),
    "an empty file": ("", "`ldapslam job describe` explains"),
}


@pytest.mark.parametrize("name", JOB_FILES)
def test_a_mistake_in_a_job_file(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text, remedy = JOB_FILES[name]
    Path("job.yaml").write_text(text)
    code, said = answer(capsys, "check job.yaml --offline")
    assert code == 2
    assert remedy in said


COMMANDS = {
    "modify ldap://ds1 -e cn=a,dc=x -a sn --value b --name ''": "--name: expected",
    "run good.yaml --name mine": "--set job=NAME",
    # the options of others
    "modify ldap://ds1 --entryDN cn=a,dc=x": "-e DN",
    "search ldap://ds1 -b dc=x --outputFile a.txt": "Here: --out DIR",
    "search ldap://ds1 -R100": "-r RATE (wrk)",
    "search ldap://ds1 -b dc=x -rate 50/s": "Here: --rate",
    "search ldap://ds1 -b dc=x '(uid=a)' cn": "write -f '(uid=a)' if it is a filter",
    "search ldap://ds1 -b dc=x cn": "-a cn where it is an attribute",
    "search -x -H ldap://ds1 -b dc=x": "line: ldapslam search ldap://ds1 -b dc=x",
    "ldapsearch -x -H ldap://ds1 -b dc=x": "did you mean `ldapslam search`?",
    "search ldap://ds1 -e random,abandon -b dc=x": "`streams.operations.abandon`",
    "run good.yaml --out json=out.json": "--json prints result.json",
    "run good.yaml -o res.json": "--json prints result.json; res.json/ is a folder",
    "search ldap://ds1 -b dc=x --out out/res.csv": "expected a folder, got",
    "run good.yaml -o experimental-prometheus-rw": "expected a folder, got",
    "run good.yaml --out influxdb": "expected a folder, got",
    "search ldap://ds1 -b dc=x --metrics 9400": "`ldapslam search … --print-job > "
    "job.yaml`, then `ldapslam run job.yaml --metrics HOST:PORT`",
    "search ldap://ds1 -b dc=x -f (uid=e[001-050])": "[1-50%000] for numbers of 3",
    "search ldap://ds1 -p 389 -b dc=x": "Here: ldap://HOST:PORT, an argument",
    "search -H ldap://ds1 -b dc=x": "Here: ldap://HOST:PORT, an argument",
    "search -h ds1 -p 389 -D cn=a,dc=x -w b -b dc=x -s sub -f (uid=a)": "No such "
    "options. Here: -h, -p: ldap://HOST:PORT, an argument: of several, connections go "
    "to one after the other -w: -y FILE, --password-env NAME: a password is no "
    "argument, and nothing is asked The whole line: ldapslam search ldap://ds1:389 "
    "-D cn=a,dc=x -y FILE -b dc=x -s sub -f '(uid=a)'",
    "search -x -LLL -H ldap://ds1 -W -D cn=a,dc=x -b dc=x (uid=a) cn": "whole line: "
    "ldapslam search ldap://ds1 -y FILE -D cn=a,dc=x -b dc=x -f '(uid=a)' -a cn",
    "modify --hostname ds1 -b cn=[1-9],dc=x -A sn -r 50 --numThreads 3": "line: "
    "ldapslam modify ldap://ds1 -e 'cn=[1-9],dc=x' -a sn -r 50/s -c 3",
    "search -h ds1": "Here: ldap://HOST:PORT, an argument",
    "search ldap://ds1 -b dc=x --durration 5s": "Here: --duration",
    "list --foo --limitt 5": "Here: --foo: nothing --limitt: --limit",
    "search ldap://ds1 -b dc=x -t 16": "-c N (searchrate, rsearch); --request",
    "search ldap://ds1 -b dc=x -x": "Here: leave it out",
    "search ldap://ds1 -b dc=x -D cn=a -W": "-y FILE, --password-env NAME (ldapsearch)",
    "search ldap://ds1 -b dc=x -D cn=a -w b": "use -y FILE or --password-env NAME",
    "search ldap://ds1 -b dc=x -D cn=a": "-D needs its password: -y FILE",
    "run good.yaml -d 30s": "Here: --set run.duration=30s",
    "run good.yaml --rate 90/s": "--set 'streams.readers.load={open: {rate: 90/s}}'",
    "run open.yaml --rps 100": "Here: --set streams.readers.load.open.rate=100/s",
    "run good.yaml --vus 5": "Here: --set streams.readers.load.closed.clients=5",
    "run open.yaml --vus 5": "Here: --set streams.readers.load.open.connections=5",
    "run two.yaml --vus 5": "Here: --set streams.NAME.load.closed.clients=16, or in",
    "run good.yaml -e users=5": "--var NAME=VALUE (k6)",
    "run good.yaml -v": "Here: `ldapslam -v run`",
    "search ds1 -b dc=x": "write ldap://ds1",
    "search ldap://ds1 -b dc=x -Z ca.pem": "the authorities are --ca-file ca.pem",
    "search ldap://ds1 -d 30 s -b dc=x": "a number and its unit are one word",
    "search ldap:/ds1 -b dc=x": "write ldap://ds1",
    "search ldap://ds1,ldap://ds2 -b dc=x": "give each URI as an argument",
    "search good.yaml -b dc=x": "`ldapslam run` takes a job file",
    "check ldap://ds1": "`ldapslam job new URI FILE` writes one",
    "report last": "did you mean `latest`?",
    "data load good.yaml": "give a URI too, such as ldap://ds1.example.com",
    "delete ldap://ds1 -b dc=x": "-e DN (searchrate, ldclt)",
    "search ldap://ds1": "'--base'. Where to search",
    "search ldap://ds1 -r 100": "`ldapslam job new ldap://ds1 FILE` writes a job with "
    "a base that is there",
    "bind ldap://ds1 -b dc=x -f (uid=m[1-9]) --credentials S-[ref:1]": "write [n], and "
    "add --set \"streams.0.operations.0.sequence.0.let.n='[0-9999]'\"",
    "bind ldap://ds1 -e cn=m[1-9],dc=x --credentials S-[ref:1]": "write [n], and "
    "add --set \"streams.0.operations.0.let.n='[0-9999]'\"",
    "-t2 -c16 -R100 ldap://ds1": "did you mean `ldapslam search URI …`?",
    "searchrate --hostname ds1 -b dc=x -f (uid=a) -r 50 -t 3": "did you mean `ldapslam "
    "search`? The whole line: ldapslam search ldap://ds1 -b dc=x -f '(uid=a)' -r 50/s "
    "-c 3",
    "search ldap://ds1 -b dc=x -o nettimeout=5": "nettimeout=5/ is a folder",
    "modify ldap://ds1 -e cn=x -a description=y": "write --replace 'description=y'",
    # numbers
    "search ldap://ds1 -b dc=x -r 500": "-r: expected a rate such as '500/s' or",
    "search ldap://ds1 -b dc=x -r 0": "are in a value pattern: [0-4999%0000]",
    "search ldap://ds1 -b dc=x -r 0/s": "are in a value pattern: [0-4999%0000]",
    "search ldap://ds1 -b dc=x -d 30": "write the unit: 30s, 30ms or 30us",
    "search ldap://ds1 -b dc=x -l 5min": "write 5m",
    "search ldap://ds1 -b dc=x --threshold 'p(99) < 5ms'": "write 'p99 < 5ms'",
    "search ldap://ds1 -b dc=x -r 5/s --think-time 5ms": "is for a closed loop",
    f"submit good.yaml --every 6 {NO_COORDINATOR}": "write the unit: 6s, 6ms or 6us",
    f"health {NO_COORDINATOR} --timeout 5": "write the unit: 5s, 5ms or 5us",
    "store prune --keep-for 90": "the units are h, d and w",
    "capacity good.yaml --load rate --from 5/s --to 9/s": "raise --load clients, or",
    "capacity open.yaml --load clients --from 5 --to 9": "{closed: {clients: 1}}",
    "capacity open.yaml --load rate --from 5/s --to 9/s --objective 'p99 < 20'": (
        "--objective: "
    ),
    "capacity good.yaml --load user --from 5 --to 9": "known variables: clients",
    "capacity good.yaml --load clients --from 5/s --to 9/s": "without a unit",
    "capacity good.yaml --load clients --from 5 --to 9x": "such as 16; of a rate 50/s",
    "capacity open.yaml --load rate --from 50 --to 60/s": "write the unit: 50/s",
    "capacity open.yaml --load rate --from 90/m --to 60/s": "a whole number per second",
    "capacity open.yaml --load rate --from 6/s --to 5/s": "expected --from below --to",
    "capacity two.yaml --load rate --from 5/s --to 9/s": "streams.others.load.open",
    "run good.yaml --threads 4": "Here: --set streams.readers.load.closed.clients=4",
    "check good.yaml --concurrency 4": "streams.readers.load.closed.clients=4",
    "job list": "no command 'ldapslam job list': did you mean `ldapslam job examples`?",
    "job describ": "did you mean `ldapslam job describe`?",
    "data xyz": "no command 'ldapslam data xyz': there are fingerprint, generate,",
    "study jobs.yaml": "give each a name: jobs: {search: search.yaml, b: b/b.yaml}",
    "study jobs.yaml --out res.json": "--json prints study.json; res.json/ is a folder",
    "gate good.yaml --old ldap://a --new ldap://b --out r.csv": "expected a folder",
    "capacity good.yaml --load clients --from 5 --to 9 --out r.json": "capacity.json",
    # changes of a job
    "check good.yaml --offline --set duration=5s": "--set run.duration=…",
    "check good.yaml --offline --set run.durration=5s": "did you mean 'duration'?",
    "check good.yaml --offline --set streams.9.target=x": "the last one is 0",
    "check good.yaml --offline --set streams.writers.target=x": "known names: readers",
    "check good.yaml --offline --set run.duration": "such as --set run.duration=30s",
    "check good.yaml --offline --var users=5": "there are no variables here",
    # files and places
    "run good.yaml --metrics http://127.0.0.1:9400": "write 127.0.0.1:9400: it is no",
    "run good.yaml --metrics nowhere.invalid:9400": "give an address of this host",
    "check god.yaml": "did you mean 'good.yaml'?",
    "run good.yaml --out /proc/nothing": "name another one with --out",
    "study good.yaml": "`ldapslam run good.yaml` runs it",
    "show latest": "`ldapslam list` shows the runs of ldapslam-runs",
    "report nowhere/run": "name one that `ldapslam run`",
    "report latest --store good.yaml": "is not a results store",
    "report latest --store none.sqlite": "does not exist",
    "report newer": "use the ldapslam that wrote it, or a newer one",
    "verify good.yaml": "it is not JSON hint: give the folder of a run",
    "report latest --local --format docx": "the formats are html, pdf",
    "compare latest": "two sides are needed",
    "job examples nothing": "`ldapslam job examples` lists them",
    # fleets
    f"list {NO_COORDINATOR}": "is `ldapslam coordinator` running there",
    "list --coordinator http://ds1:7400": "write ds1:7400: it is no URL",
    "list --coordinator ds1:port": "for example 127.0.0.1:7400",
    "list --coordinator 10.0.0.1:7400": "make certificates with `ldapslam pki`",
    "list --coordinator 10.0.0.1:7400 --tls .": "`ldapslam pki issue` makes",
    "agent --host ds1 --port 7400": "Here: --host, --port: --coordinator HOST:PORT",
    "agent --master-host=10.0.0.1": "Here: --coordinator HOST:PORT",
    "agent 10.0.0.1:7400": "write --coordinator 10.0.0.1:7400",
    "agents 10.0.0.1:7400": "write --coordinator 10.0.0.1:7400",
    "submit good.yaml --clients 2": "clients=2; SLAMD's clients are agents: "
    "--set agents.count=N",
    "submit good.yaml --server 10.0.0.1:7400": "Here: --coordinator HOST:PORT",
    "coordinator --host 10.0.0.1 -p 7400": "Here: --host, -p: --listen HOST:PORT",
    "coordinator 10.0.0.1:7400": "write --listen 10.0.0.1:7400",
    "agent --coordinator 10.0.0.1:7400": "make certificates with `ldapslam pki`",
    f"submit good.yaml {NO_COORDINATOR} --at 2020-01-01T00:00": "leave --at out to run",
    f"submit good.yaml {NO_COORDINATOR} --at tomorrow": "write 22:30, 2026-03-01T22:30",
    f"submit good.yaml {NO_COORDINATOR} --at 22:30 --tz CEST": "such as Europe/Berlin",
    f"submit good.yaml {NO_COORDINATOR} --cron '* * * *'": "expected 5 fields, got 4",
    f"submit good.yaml {NO_COORDINATOR} --cron '61 * * * *'": "five fields as in",
    f"submit good.yaml {NO_COORDINATOR} --cron '@daily' --every 6h": "give one of them",
    "coordinator --store good.yaml": "is not a results store",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_mistake_in_a_command(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "newer" in command:
        _store_of_a_later_version(folder / "newer")
    code, said = answer(capsys, command)
    assert code == _CODES.get(command, 2)
    assert COMMANDS[command] in said


@pytest.mark.parametrize(
    ("line", "says"),
    [
        # the value may be an argument
        ("search -h ds1 -b dc=x -x uid=a", "-x: leave it out"),
        # ldclt's alone, though others have -e as well
        ("search ldap://ds1 -b dc=x -e bindeach", "--reconnect-every"),
        ("search ldap://ds1 -b dc=x -e esearch,random", "the command of that"),
    ],
)
def test_no_line_is_made_up(
    line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = answer(capsys, line)
    assert code == 2
    assert says in said
    assert "The whole line" not in said
    assert "--out" not in said


_CODES = {"verify good.yaml": 3, f"list {NO_COORDINATOR}": 5}


def _store_of_a_later_version(folder: Path) -> None:
    Store.open(folder / "results.sqlite").close()
    with sqlite3.connect(folder / "results.sqlite") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.close()


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_in_use(port_in_use: int, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"coordinator --listen 127.0.0.1:{port_in_use} --store c.sqlite"
    code, said = answer(capsys, command)
    assert code == 2
    assert "it is in use" in said
    assert "--listen names another port" in said
    assert "GRPC" not in said


WARNINGS = {
    "a variable without vars": (
        changed("[0-9]", "${number}"),
        "write a value pattern, such as [name], or give the job `vars`",
    ),
    "OpenDJ's placeholder": (
        changed("[0-9]", "{}"),
        "write a value pattern, such as [0-999]",
    ),
    "ldclt's placeholder": (
        changed("[0-9]", "XXXXX"),
        "a number of ldclt, write a value pattern, such as [0-99999%00000]",
    ),
    "ldclt's placeholder of added entries": (
        changed(SEARCH, 'add: {dn: "cn=mrXXXX,dc=x", entry: {objectClass: device}}'),
        "such as [0:9999%0000]",
    ),
    "ldclt's placeholder in a password": (
        changed(SEARCH, "bind: {dn: 'uid=[0-9],dc=x', password: pwXXX}"),
        "'XXX' in `password` is sent as it is",
    ),
    "a password of another user": (
        changed(SEARCH, "bind: {dn: 'uid=[0-9],dc=x', password: 'pw[0-9]'}"),
        'draw it once, by `let: {n: "[0-9]"}`, and write [n] in both',
    ),
    "a password of another user than was found": (
        changed(
            f"- {SEARCH}",
            f"- sequence: [{{{SEARCH}, capture: {{u: dn}}}}, "
            "{bind: {dn: '[u]', password: 'pw[0-9]'}}]",
        ),
        "[0-9] in the password is drawn by itself",
    ),
    "fewer numbers than adds": (
        changed(SEARCH, 'add: {dn: "cn=[1:50],dc=x", entry: {objectClass: device}}')
        + "    count: 100\n",
        "the range of `dn: cn=[1:50],dc=x` has 50 values, 100 are asked for",
    ),
    "the port of ldaps": (
        changed("example.com", "example.com:636"),
        "636 is the port of ldaps://",
    ),
    "fewer operations than clients": (
        changed("target: directory\n", "target: directory\n    count: 1\n"),
        "is less than its 2 clients (-c)",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_what_is_no_fault_but_hardly_meant_is_warned_of(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text, warning = WARNINGS[name]
    Path("job.yaml").write_text(text)
    code, said = answer(capsys, "check job.yaml --offline")
    assert code == 0
    assert warning in said


@pytest.mark.parametrize("name", ["./a=b", "a=b/", "res.json/", "./csv", "res"])
def test_a_folder_of_results_may_have_any_name(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"run good.yaml --print-job --out {name}"
    assert answer(capsys, command) == (0, "")


def test_the_only_target_needs_no_naming(capsys: pytest.CaptureFixture[str]) -> None:
    Path("job.yaml").write_text(changed("    target: directory\n", ""))
    assert answer(capsys, "check job.yaml --offline") == (0, "")
    assert load_job(Path("job.yaml")).streams[0].target == "directory"


def test_a_good_job_has_no_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "check good.yaml --offline") == (0, "")
