# SPDX-License-Identifier: Apache-2.0
"""Secrets are nowhere: a real run with planted ones, and a search in all that it left.

Every way by which a secret comes in is used: environment and file; a simple bind, one
by SASL with an authorization identity, a Python class and a program of its own; a
command for ends of runs that prints a URL with its password and fails. Then every file
of coordinator, agent, operator and reports is searched, every line that was printed,
the arguments of every process while they ran, every value of every table, all that
agent, operator and coordinator said to each other, and the coordinator's memory, for
each secret as it is and as programs write things down.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

from support.command_line import Running, check_ldapslam, ldapslam
from support.fake_ldap import FakeLdap, Peer, Request, answer, answer_with, result
from support.relay import Relay

#: Each with characters that encodings change, and a middle that is its own.
SECRETS = {
    "bind": "b!nd+Pa55/w0rd äQ7x",
    "other": "0ther&s3cret=?zK9~",
    "monitor": "m0n!tor <s3cret> 4jT",
    "sasl": "5a5l secret%W4~x8",
    "file": "fr0m a file: v6#Hü",
    "hook": "h00k-8hG2kLp-Zz",
}
_PLAIN_PLUGIN = "/usr/lib/x86_64-linux-gnu/sasl2/libplain.so"

JOB = """\
name: secrets
targets: {{s: "{uri}", closed: "{refusing}"}}
bind: {{dn: "cn=admin,dc=example,dc=com", password: {{env: PLANTED_BIND}}}}
run: {{duration: 1s, interval: 200ms, drain: 1s}}
agents: {{count: 1}}
thresholds: ["one.search.response_time.p99 < 10s"]
monitors:
  - directory: s
    bind: {{dn: "cn=monitor,dc=example,dc=com", password: {{env: PLANTED_MONITOR}}}}
streams:
  - name: one
    target: {target}
    load: {{clients: 2, think_time: 10ms}}
    operations: [{{search: {{base: "dc=example,dc=com"}}}},
                 {{add: {{dn: "cn=[unique],dc=example,dc=com",
                          entry: {{objectClass: device}}}}}}]
  - name: other
    target: s
    bind: {{dn: "cn=other,dc=example,dc=com", password: {{env: PLANTED_OTHER}}}}
    load: {{rate: 50/s, connections: 1}}
    operations: [{{compare: {{dn: "dc=example,dc=com", attribute: dc, value: x}}}}]
  - name: class
    target: s
    bind: {{dn: "cn=class,dc=example,dc=com", password: {{file: "{file}"}}}}
    python: {{class: "support.python_jobs:Lookups", operations: [find, miss],
               options: {{base: "dc=example,dc=com"}}}}
    load: {{clients: 1, think_time: 20ms}}
{more}"""
SASL = """\
  - name: sasl
    target: s
    bind: {sasl: {mechanism: PLAIN, authcid: user, authzid: "u:proxied",
                  password: {env: PLANTED_SASL}}}
    load: {clients: 1, think_time: 20ms}
    operations: [{search: {base: "dc=example,dc=com"}}]
"""
PROGRAM = """\
  - name: program
    target: s
    type: burst
    options: {client: process, base: "dc=example,dc=com"}
    load: {clients: 1, think_time: 20ms}
"""


def directory(peer: Peer, request: Request) -> bool:
    """Has every entry but those that the class looks for in vain."""
    if b"ou=nowhere" in request.content:
        return peer.send(result(request, 32))
    return answer(peer, request)


def encodings(secret: str) -> Iterator[tuple[str, bytes]]:
    """The forms in which it might have been written down."""
    plain = secret.encode()
    yield "plain", plain
    yield "latin-1", secret.encode("latin-1", "replace")
    yield "JSON", json.dumps(secret)[1:-1].encode()
    yield "repr", repr(plain)[2:-1].encode()
    yield "hex", plain.hex().encode()
    yield "HEX", plain.hex().upper().encode()
    yield "url", quote(secret, safe="").encode()
    yield "form", quote_plus(secret, safe="").encode()
    yield "utf-16-le", secret.encode("utf-16-le")
    yield "utf-16-be", secret.encode("utf-16-be")
    for shift in range(3):
        # wherever it begins in what was encoded: without the characters at its ends
        # that what is beside it decides
        coded = base64.b64encode(b"\0" * shift + plain)
        yield f"base64+{shift}", coded[4:-4]
        yield f"base64url+{shift}", coded[4:-4].translate(bytes.maketrans(b"+/", b"-_"))


FORMS = [
    (name, form, needle)
    for name, secret in SECRETS.items()
    for form, needle in encodings(secret)
]


def leaks(content: bytes, where: str, of: Collection[str] = SECRETS) -> list[str]:
    """Which of these secrets are in it, and in which form."""
    return [
        f"{where}: {name} ({form})"
        for name, form, needle in FORMS
        if name in of and needle in content
    ]


def opened(path: Path, content: bytes) -> Iterator[bytes]:
    """A file's content, and what is packed in it."""
    yield content
    if path.suffix == ".pdf":
        for match in re.finditer(rb"stream\r?\n(.*?)endstream", content, re.DOTALL):
            with contextlib.suppress(zlib.error):
                yield zlib.decompress(match[1])
    if content.startswith(b"SQLite format 3"):
        with contextlib.closing(
            sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        ) as db:
            tables = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                for row in db.execute(f'SELECT * FROM "{table}"'):
                    for value in row:
                        yield value if isinstance(value, bytes) else str(value).encode()


def leaks_of_files(folder: Path, *, planted: Path) -> list[str]:
    found = []
    for path in sorted(folder.rglob("*")):
        if path == planted or not path.is_file():
            continue
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue  # a report that was delivered meanwhile
        for part in opened(path, content):
            found += leaks(part, str(path.relative_to(folder)))
        found += leaks(path.name.encode(), f"name of {path.parent}")
    return found


def leaks_of_memory(pid: int, secrets: Collection[str]) -> list[str]:
    """What a core dump of the process would tell, of these secrets."""
    found = set()
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for place, rights, *_ in map(str.split, maps):
            if not rights.startswith("rw"):
                continue
            start, _, end = place.partition("-")
            memory.seek(int(start, 16))
            with contextlib.suppress(OSError):  # what cannot be read is not dumped
                content = memory.read(int(end, 16) - int(start, 16))
                found.update(leaks(content, "memory", secrets))
    return sorted(found)


_NO_CORE = r"Max core file size +[01] +[01] "


class Watch:
    """Within, looks at the arguments of all processes and at files that do not last."""

    def __init__(self, folder: Path, planted: Path) -> None:
        self.found: set[str] = set()
        #: Command lines that were seen, so that a test can tell that it saw something.
        self.seen: set[bytes] = set()
        #: Of those, the agent's, whose core dumps would have the secrets.
        self.of_agent: set[bytes] = set()
        self._looked_at: set[tuple[Path, bytes]] = set()
        self._folder, self._planted = folder, planted
        self._over = threading.Event()
        #: Pid -> when it was seen first.
        self._since_s: dict[str, float] = {}
        looks = (
            # programs that are started for a request are there for some ms
            (self._new_processes, 0.005),
            (self._processes, 0.05),
            (self._files, 0.05),
        )
        self._threads = [threading.Thread(target=self._look, args=one) for one in looks]

    def _look(self, look: Callable[[], None], pause_s: float) -> None:
        while not self._over.wait(pause_s):
            look()

    def _processes(self) -> None:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            self._look_at(Path("/proc", pid))

    def _new_processes(self) -> None:
        """For a second: they may become another program."""
        now_s, since_s = time.monotonic(), self._since_s
        pids = filter(str.isdigit, os.listdir("/proc"))
        self._since_s = {pid: since_s.get(pid, now_s) for pid in pids}
        for pid, first_s in self._since_s.items():
            if now_s - first_s < 1.0:
                self._look_at(Path("/proc", pid))

    def _look_at(self, process: Path) -> None:
        with contextlib.suppress(OSError):
            arguments = (process / "cmdline").read_bytes()
            if (process, arguments) not in self._looked_at:
                self._looked_at.add((process, arguments))
                self.seen.add(arguments)
                self.found.update(leaks(arguments, f"arguments: {arguments!r}"))
                # other tests have agents too
                is_here = (process / "cwd").readlink() == self._folder
                if is_here and b"ldapslam.agent." in arguments:
                    self.of_agent.add(arguments)
                    limits = (process / "limits").read_text()
                    if not re.search(_NO_CORE, limits):
                        self.found.add(f"a core dump of {arguments!r}")

    def _files(self) -> None:
        for name in ("spool", "scratch"):
            # folders go while they are read
            with contextlib.suppress(OSError):
                self._look_below(self._folder / name)

    def _look_below(self, folder: Path) -> None:
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError):
                if path.is_file() and path.suffix != ".sqlite":
                    self.found.update(leaks(path.read_bytes(), str(path)))

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def test_secrets_are_found_where_they_are(tmp_path: Path) -> None:
    """What the search below would find, if it were there."""
    for _, secret in SECRETS.items():
        for form, needle in encodings(secret):
            assert leaks(b"x" * 100 + needle + b"y", "here"), form
        for shift in range(3):
            around = b"a" * shift + f"password={secret}, and more".encode()
            assert leaks(base64.b64encode(around), "here")
    path = tmp_path / "store.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute("INSERT INTO t VALUES (?)", (SECRETS["bind"],))
        db.commit()
    (tmp_path / "planted").write_text(SECRETS["file"])
    found = leaks_of_files(tmp_path, planted=tmp_path / "planted")
    assert {text.partition(":")[0] for text in found} == {"store.sqlite"}
    mine = leaks_of_memory(os.getpid(), {"bind"})
    assert "memory: bind (plain)" in mine


def test_secrets_are_in_no_file_log_argument_or_table(tmp_path: Path) -> None:
    planted = tmp_path / "planted"
    planted.write_text(SECRETS["file"])
    outputs: list[str] = []
    more = SASL if Path(_PLAIN_PLUGIN).exists() else ""
    if shutil.which("ldapsearch") is not None:
        more += PROGRAM

    with (
        FakeLdap(directory) as server,
        FakeLdap(answer, on_bind=answer_with(49)) as refusing,
    ):
        with contextlib.ExitStack() as stack:
            hook = tmp_path / "hook"
            hook.write_text(
                'echo "cannot reach https://ana:$PLANTED_HOOK@h/"; exit 1\n'
            )
            secrets = {
                "PLANTED_BIND": SECRETS["bind"],
                "PLANTED_OTHER": SECRETS["other"],
                "PLANTED_SASL": SECRETS["sasl"],
                "PLANTED_MONITOR": SECRETS["monitor"],
                "TMPDIR": str(tmp_path / "scratch"),
                "XDG_STATE_HOME": str(tmp_path / "state"),
            }
            (tmp_path / "scratch").mkdir()
            watch = stack.enter_context(Watch(tmp_path, planted))
            its_own = {"PLANTED_HOOK": SECRETS["hook"], "TMPDIR": secrets["TMPDIR"]}
            coordinator = stack.enter_context(
                Running(
                    *("coordinator", "--listen", "127.0.0.1:0"),
                    *("--store", tmp_path / "results.sqlite"),
                    *("--on-run-end", "sh", "--on-run-end", hook),
                    cwd=tmp_path,
                    name="coordinator",
                    variables=its_own,
                )
            )
            coordinator.wait_for_text("coordinator on ")
            found = re.search(r"coordinator on (\S+),", coordinator.stderr)
            assert found is not None
            relay = stack.enter_context(Relay(found[1], records=True))
            agent = stack.enter_context(
                Running(
                    *("--verbose", "agent", "--coordinator", relay.address),
                    *("--name", "one", "--spool", tmp_path / "spool"),
                    *("--allow-secret", "any", "--allow-class", "any"),
                    cwd=tmp_path,
                    name="agent",
                    variables=secrets,
                )
            )
            agent.wait_for_text("registered")

            def call(*arguments: str | Path) -> int:
                ended = ldapslam(
                    *arguments,
                    cwd=tmp_path,
                    timeout_s=300,
                    variables={
                        "LDAPSLAM_COORDINATOR": relay.address,
                        "TMPDIR": str(tmp_path),
                    },
                )
                outputs.extend((ended.stdout, ended.stderr))
                return ended.returncode

            for name, target in (("good", "s"), ("bad", "closed")):
                path = tmp_path / f"{name}.yaml"
                path.write_text(
                    JOB.format(
                        uri=server.uri,
                        refusing=refusing.uri,
                        target=target,
                        file=planted,
                        more=more,
                    )
                )
            # of a run that goes well, and of one whose bind is refused
            assert call("submit", tmp_path / "good.yaml", "--wait", "--json") in (
                0,
                1,
                3,
            )
            runs = json.loads(_stdout(found[1], "list", "--json"))
            assert [run["state"] for run in runs] == ["finished"]
            assert call("submit", tmp_path / "bad.yaml", "--wait") == 6
            run_id = runs[0]["run_id"]
            assert call("report", run_id, "--out", tmp_path / "reports") == 0
            assert call("show", run_id, "--json") == 0
            assert call("fleet", "agents", "--json") == 0
            coordinator.wait_for_text("https://ana:***@h/")
            # its environment and the command's output are the coordinator's to know
            in_memory = leaks_of_memory(coordinator.process.pid, SECRETS)
            heard = [bytes(each) for each in relay.heard]

    # the secrets were used
    assert server.connections > 5
    for title in (b"agent.engine.process", b"agent.monitoring.process"):
        assert any(title in line for line in watch.of_agent)
    if "program" in more:
        assert any(b"ldapsearch" in line for line in watch.seen)
    suffixes = {path.suffix for path in (tmp_path / "reports").rglob("*")}
    assert {".html", ".pdf", ".json", ".csv"} <= suffixes

    assert sorted(watch.found) == []
    assert leaks("\n".join(outputs).encode(), "printed") == []
    assert any(b"cn=monitor,dc=example,dc=com" in each for each in heard)
    assert [leak for each in heard for leak in leaks(each, "heard")] == []
    assert {text.split()[1] for text in in_memory} == {"hook"}, in_memory
    assert leaks_of_files(tmp_path, planted=planted) == []


def _stdout(coordinator: str, *arguments: str) -> str:
    ended = check_ldapslam(*arguments, variables={"LDAPSLAM_COORDINATOR": coordinator})
    return ended.stdout
