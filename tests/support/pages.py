# SPDX-License-Identifier: Apache-2.0
"""The commands of a page of the documents, run as a reader would run them.

Comments before a fenced block, which readers do not see, say what is not in its text:

    <!-- not run: REASON -->        this block cannot run here
    <!-- run: any verdict -->       it may be INVALID, as on a busy machine
    <!-- file: NAME -->             the block is what this file is to hold
    <!-- copy: PATH as NAME -->     a file of the repository that the reader has;
                                    without `as`, by its own name
    <!-- before: COMMAND -->        what has to be there, run first
    <!-- hosts: NAME NAME -->       of the page: network namespaces, NAME or
                                    NAME.example.com; ds1, ds2 … have a directory
    <!-- on: NAME -->               the host that the block is for; else the first one
    <!-- on: NAME, in the background until "TEXT" -->

In `sh` blocks all is commands; each is to end with 0. In `console` blocks those are
behind `$ `, go on behind `> `, and what follows is in their output, in this order:
`…` stands for anything, a number for any number. Before `echo $?` a command may end
with the code that this prints.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from support.command_line import environment
from support.network import Network

ROOT = Path(__file__).resolve().parents[2]
#: PASS, FAIL, INVALID, and nothing to compare, as all runs are INVALID.
VERDICTS = (0, 1, 3, 4)
TIMEOUT_S = 600
#: What a directory of a page has.
ENTRIES = 2_000
#: Who the jobs of pages bind as, and that it may read what monitors need.
LOADER = """\
dn: cn=loader,dc=example,dc=com
changetype: add
objectClass: organizationalRole
objectClass: simpleSecurityObject
userPassword: secret

dn: olcDatabase={2}Monitor,cn=config
changetype: modify
replace: olcAccess
olcAccess: to * by dn.exact="cn=loader,dc=example,dc=com" read
"""

_BLOCK = re.compile(
    r"(?P<notes>(?:^[ ]*<!-- [^\n]* -->\n)*)^(?P<indent>[ ]*)```(?P<language>\w*)\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_NOTE = re.compile(r"<!-- ([a-z ]+): (.*) -->")
_BACKGROUND = re.compile(r'(\w+), in the background until "(.+)"')


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str
    notes: dict[str, str]

    @property
    def is_commands(self) -> bool:
        return self.language in ("sh", "console")

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        indent = len(found["indent"])
        lines = [line[indent:] for line in found["text"].splitlines()]
        yield Block(
            page,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            "\n".join(lines) + "\n",
            dict(_NOTE.findall(found["notes"])),
        )


@dataclass
class Step:
    """One command, and what the page shows of its output."""

    command: str
    output: list[str] = field(default_factory=list)


def steps(block: Block) -> list[Step]:
    found: list[Step] = []
    if block.language == "sh":
        pending = ""
        for line in block.text.splitlines(keepends=True):
            pending += line
            if pending.strip() and _is_whole(pending):
                found.append(Step(pending))
                pending = ""
        assert not pending.strip(), f"{block.place}: not a whole command: {pending}"
        return found
    is_here_document = ""
    for line in block.text.splitlines():
        if is_here_document:
            found[-1].command += line + "\n"
            is_here_document = "" if line == is_here_document else is_here_document
        elif line.startswith("$ "):
            found.append(Step(line[2:] + "\n"))
            end = re.search(r"<<'?(\w+)'?", line)
            is_here_document = end[1] if end else ""
        elif line.startswith("> "):
            found[-1].command += line[2:] + "\n"
        else:
            found[-1].output.append(line)
    return found


def _is_whole(text: str) -> bool:
    if text.endswith("\\\n"):
        return False
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True)
    return read.returncode == 0 and not read.stderr


def missing_line(expected: Sequence[str], output: str) -> str | None:
    """The first line of the page that is not in the output, after those before it."""
    lines = iter([_comparable(line) for line in output.splitlines()])
    for line in expected:
        if line.strip() in ("", "…"):
            continue
        parts = _comparable(line).split("…")
        pattern = re.compile(".*".join(re.escape(part) for part in parts))
        if not any(pattern.fullmatch(one) for one in lines):
            return line
    return None


def _comparable(line: str) -> str:
    """Without what is another one in each run: ids, numbers, widths of columns."""
    if line.strip().isdigit():
        return line.strip()
    line = re.sub(r"\d{8}-\d{6}-[0-9a-f]{6}", "RUN", line)
    line = re.sub(r"(?<=\d)[.,:](?=\d)|\d", "#", line)
    line = re.sub(r"#+", "#", line)
    return re.sub(r"-{2,}", "--", " ".join(line.split()))


class Host:
    """A shell that stays, on a host of the page's own."""

    def __init__(self, name: str, folder: Path, prefix: Sequence[str] = ()) -> None:
        self.name = name
        self._home = folder / f"home-{name}"
        self._home.mkdir()
        self._work = folder / "work"
        self._log = folder / f"{name}.out"
        self._prefix = list(prefix)
        bin_folder = str(Path(sys.executable).parent)
        self._variables = environment(
            {
                "HOME": str(self._home),
                "PATH": f"{bin_folder}:{os.environ['PATH']}:/usr/sbin",
                "COLUMNS": "100",
            }
        )
        self._background: list[subprocess.Popen[bytes]] = []
        self._shell = subprocess.Popen(
            [*self._prefix, "bash", "--noprofile", "--norc"],
            cwd=self._work,
            env=self._variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._code = 0

    def run(self, command: str) -> tuple[int, str]:
        """Its exit code and all that it says. The shell keeps its folder, variables and
        last exit code."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        script = self._home / ".step"
        script.write_text(f"(exit {self._code})\n{command}")
        files = f"{shlex.quote(str(script))} >{shlex.quote(str(self._log))}"
        self._shell.stdin.write(f". {files} 2>&1 </dev/null; echo $?\n")
        self._shell.stdin.flush()
        answer = self._shell.stdout.readline().strip()
        output = self._log.read_text("utf-8")
        assert answer, f"the shell has ended: {output}"
        self._code = int(answer)
        return self._code, output

    def start(self, command: str, until: str) -> None:
        """Leave it to run, once it has said that it does."""
        log = self._home / f"background-{len(self._background)}.out"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*self._prefix, "bash", "-c", f"exec {command}"],
                cwd=self._work,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._background.append(process)
        deadline_s = time.monotonic() + 60
        while until not in log.read_text():
            assert process.poll() is None, f"it has ended: {log.read_text()}"
            assert time.monotonic() < deadline_s, f"no {until!r} in: {log.read_text()}"
            time.sleep(0.05)

    def close(self) -> None:
        """End what the page left: labs, and what runs in the background."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        if self._shell.poll() is None:
            _, listed = self.run("ldapslam lab status --json 2>/dev/null")
            for lab in json.loads(listed):
                self.run(f"ldapslam lab down {lab['name']}")
        self._shell.stdin.close()
        self._shell.wait(60)
        self._shell.stdout.close()
        for process in reversed(self._background):
            process.terminate()
            process.wait(60)


def serve_directory(host: Host) -> None:
    """A lab of the host, at the ports that directories have, for other hosts too."""
    up = f"ldapslam lab up --entries {ENTRIES} --setting sizelimit=unlimited --json"
    code, output = host.run(f"{up} 2>/dev/null")
    assert code == 0, output
    lab = json.loads(output)
    [server] = lab["servers"]
    ports = {389: server["uri"], 636: server["ldaps_uri"]}
    rules = "".join(
        f"tcp dport {port} dnat to 127.0.0.1:{uri.rpartition(':')[2]};\n"
        for port, uri in ports.items()
    )
    chain = "type nat hook {} priority -100;\n"
    code, output = host.run(
        "echo 1 >/proc/sys/net/ipv4/conf/all/route_localnet\n"
        f"nft -f - <<'END'\ntable ip directory {{\n"
        f" chain in {{ {chain.format('prerouting')}{rules} }}\n"
        f" chain own {{ {chain.format('output')}{rules} }}\n"
        f"}}\nEND\n"
        f"ldapmodify -x -H {server['uri']} -D {lab['admin_dn']} "
        f"-y {lab['admin_password_file']} <<'END'\n{LOADER}END\n"
    )
    assert code == 0, output


class Page:
    """Runs a page from its top to its end, in an empty folder.

    Names of hosts need network namespaces, and so root; other pages do not.
    """

    def __init__(self, page: Path, folder: Path) -> None:
        self._blocks = list(blocks(page))
        self._folder = folder
        named = [one.notes["hosts"] for one in self._blocks if "hosts" in one.notes]
        #: Of namespaces; without any, the page runs on this host.
        self._names = named[0].split() if named else []
        self._work = folder / "work"

    def run(self) -> int:
        """How many commands ran."""
        self._work.mkdir()
        hosts: dict[str, Host] = {}
        with ExitStack() as closing:
            if self._names:
                network = closing.enter_context(Network(*self._names))
            for name in self._names or ["here"]:
                prefix = self._on(network, name) if self._names else ()
                hosts[name] = Host(name, self._folder, prefix)
                closing.callback(hosts[name].close)
                if re.fullmatch(r"ds\d", name):
                    serve_directory(hosts[name])
            return sum(self._run_block(block, hosts) for block in self._blocks)

    def _on(self, network: Network, host: str) -> list[str]:
        """What to put before a command to run it on the host, which knows all names."""
        known = self._folder / "hosts"
        lines = ["127.0.0.1 localhost"]
        for name in self._names:
            lines.append(f"{network.address(name)} {name}.example.com {name}")
        known.write_text("\n".join(lines) + "\n")
        mount = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
        unshare = ["unshare", "--mount", "--propagation", "private"]
        in_mount = ["sh", "-c", mount, "sh", str(known)]
        return [*network.command(host), *unshare, *in_mount]

    def _run_block(self, block: Block, hosts: dict[str, Host]) -> int:
        notes = block.notes
        if "copy" in notes:
            path, _, copy = notes["copy"].partition(" as ")
            shutil.copy(ROOT / path, self._work / copy)
        if name := notes.get("file"):
            (self._work / name).write_text(block.text)
        if not block.is_commands or "not run" in notes:
            return 0
        on = notes.get("on", next(iter(hosts)))
        if background := _BACKGROUND.fullmatch(on):
            hosts[background[1]].start(block.text, background[2])
            return 1
        allowed = VERDICTS if notes.get("run") == "any verdict" else (0,)
        if "before" in notes:
            code, output = hosts[on].run(notes["before"])
            assert code == 0, f"{block.place}: {output}"
        of_block = steps(block)
        for number, step in enumerate(of_block):
            code, output = hosts[on].run(step.command)
            follower = of_block[number + 1 :][:1]
            is_asked = follower and follower[0].command.strip() == "echo $?"
            said = f"{block.place}: {step.command}{output}"
            assert is_asked or code in allowed, f"{said}ended with {code}"
            missing = missing_line(step.output, output)
            assert missing is None, f"{said}has no {missing!r}"
        return len(of_block)
