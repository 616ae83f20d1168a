# SPDX-License-Identifier: Apache-2.0
"""Writes the entries of a template file as LDIF, by the engine's generator.

The engine's threads write to descriptors; this module opens the files, follows the
progress and puts finished files in their place: a file with its own name is whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import importlib.resources
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ldapslam.agent._engine import Ldif
from ldapslam.base.errors import ConfigError, ConfigErrors
from ldapslam.base.fault import Fault, Faults, did_you_mean
from ldapslam.dataset.population import (
    PopulationProgram,
    ProgramSettings,
    build_population,
    compile_population,
)
from ldapslam.jobs.entries.template_file import parse_file
from ldapslam.jobs.requests.template import FILES

_SUFFIX = ".template"


def example_templates() -> dict[str, Path]:
    """The example templates by name."""
    folder = _folder()
    return {path.stem: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}


def names_file(which: str) -> Path:
    """The bundled file of `first` or `last` names."""
    return _folder() / f"{which}.names"


def find_template(name: str) -> tuple[str, str]:
    """Path and text of a template file, or of an example; ConfigError."""
    path = Path(name)
    if not path.exists():
        ready = example_templates()
        if name not in ready:
            raise ConfigError(
                f"there is no template file {name!r}",
                hint=did_you_mean(name, ready, "example templates"),
            )
        path = ready[name]
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"template file {name!r} cannot be read: {error}",
            hint="name a file of text in UTF-8",
        ) from None


def _folder() -> Path:
    return Path(str(importlib.resources.files("ldapslam.configs") / "data"))


STDOUT = Path("-")
_STDOUT_FD = 1
_POLL_NS = 200_000_000
#: Mode of a file with passwords: only its owner may read it.
_SECRET_MODE = 0o600

#: Told of progress: entries written, of how many, bytes of LDIF.
OnProgress = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Generation:
    """What is to be generated."""

    #: A file, or the name of an example template.
    template: str
    #: `-` is stdout.
    output: Path = STDOUT
    #: Stands in for the first count of the template.
    entries: int | None = None
    seed: int = 1
    threads: int = 1
    constants: Mapping[str, str] = field(default_factory=dict)
    max_per_template: int | None = None
    first_names: Path | None = None
    last_names: Path | None = None
    dn_file: Path | None = None
    bind_file: Path | None = None
    #: Whether a file that the template names may be read; None: all of them.
    may_read: Callable[[str], bool] | None = None


@dataclass(frozen=True)
class Generated:
    #: In the LDIF.
    entries: int
    #: Size of the LDIF.
    size_bytes: int
    duration_s: float


def generate(wanted: Generation, on_progress: OnProgress | None = None) -> Generated:
    """Write the files. ConfigError for what is wrong with the template, its files or
    the place to write to; partial files are removed."""
    with contextlib.ExitStack() as stack:
        program = _program(wanted)
        outputs = stack.enter_context(_outputs(wanted))
        ldif = _ldif(wanted, program, [output.fd for output in outputs])
        stack.callback(ldif.close)
        return _run(ldif, wanted, on_progress)


def check_template(wanted: Generation) -> None:
    """ConfigError for what is wrong with the template and its files; writes nothing."""
    _program(wanted)


def _program(wanted: Generation) -> PopulationProgram:
    name, text = find_template(wanted.template)
    try:
        population = build_population(
            parse_file(text, name, wanted.constants, wanted.entries),
            max_per_template=wanted.max_per_template,
        )
        first_names, last_names = _names_files(wanted)
        settings = ProgramSettings(
            seed=wanted.seed,
            first_names=first_names,
            last_names=last_names,
            outputs=tuple(name for name, _ in _paths(wanted)),
        )
        program = compile_population(population, settings)
        _check_files(program, wanted)
        return program
    except Faults as faults:
        errors = [ConfigError(one.reason, hint=one.hint) for one in faults.faults]
        raise ConfigErrors(errors) from None
    except Fault as fault:
        raise ConfigError(fault.reason, hint=fault.hint) from None


def _check_files(program: PopulationProgram, wanted: Generation) -> None:
    """A Fault names a file of the template's that may not be read."""
    if wanted.may_read is None:
        return
    for source in program.sources:
        path = os.fsdecode(source.data)
        is_own = source.kind not in FILES or path in _names_files(wanted)
        if not is_own and not wanted.may_read(path):
            raise Fault(
                f"the template may not read {path!r} on this host",
                "templates that others send have their values in themselves",
            )


def _names_files(wanted: Generation) -> tuple[str, str]:
    return (
        str(wanted.first_names or names_file("first")),
        str(wanted.last_names or names_file("last")),
    )


def _paths(wanted: Generation) -> list[tuple[str, Path]]:
    named = [
        ("ldif", wanted.output),
        ("dns", wanted.dn_file),
        ("binds", wanted.bind_file),
    ]
    return [(name, path) for name, path in named if path is not None]


@dataclass
class _Output:
    fd: int
    path: Path
    #: What is written until it is whole; None: the path itself.
    partial: Path | None


@contextlib.contextmanager
def _outputs(wanted: Generation) -> Iterator[list[_Output]]:
    """The open files; they get their names at the end, and after an error none."""
    outputs: list[_Output] = []
    try:
        for name, path in _paths(wanted):
            outputs.append(_open(path, _SECRET_MODE if name == "binds" else 0o666))
        yield outputs
        for output in outputs:
            if output.partial is not None:
                output.partial.replace(output.path)
    finally:
        for output in outputs:
            if output.fd != _STDOUT_FD:
                os.close(output.fd)
            if output.partial is not None:
                output.partial.unlink(missing_ok=True)


def _open(path: Path, mode: int) -> _Output:
    if path == STDOUT:
        return _Output(_STDOUT_FD, path, None)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            return _Output(os.open(path, os.O_WRONLY | os.O_CLOEXEC), path, None)
        partial = path.with_name(path.name + ".partial")
        # of a call that was killed, or a link that somebody put there
        partial.unlink(missing_ok=True)
        return _Output(os.open(partial, flags, mode), path, partial)
    except OSError as error:
        raise ConfigError(
            f"{str(path)!r} cannot be written: {error.strerror}",
            hint="name a file in a folder that is there",
        ) from None


def _ldif(wanted: Generation, program: PopulationProgram, fds: list[int]) -> Ldif:
    try:
        return Ldif(
            seed=program.seed,
            nodes=[dataclasses.astuple(node) for node in program.nodes],
            values=[dataclasses.astuple(source) for source in program.sources],
            first_names=program.first_names,
            last_names=program.last_names,
            threads=wanted.threads,
            fds=fds,
        )
    except (ValueError, OSError) as error:
        raise ConfigError(
            f"template {wanted.template!r} cannot be used: {error}",
            hint="see the files and lengths of its tags",
        ) from None


def _run(ldif: Ldif, wanted: Generation, on_progress: OnProgress | None) -> Generated:
    start_ns = time.monotonic_ns()
    try:
        ldif.start()
        while not ldif.wait(_POLL_NS):
            if on_progress is not None:
                on_progress(ldif.progress()[0], ldif.entries, ldif.progress()[1])
    except OSError as error:
        if os.strerror(errno.EPIPE) not in str(error):
            raise ConfigError(
                f"the entries cannot be written: {error}",
                hint="is there room where the files are?",
            ) from None
        # Its reader has gone, as in `… -o - | head`: no fault of the command, unless
        # other files were to be whole.
        if wanted.output != STDOUT or len(_paths(wanted)) > 1:
            raise ConfigError(
                "the entries cannot be written, and no file was made: a reader left "
                "before the end",
                hint=f"-o {os.devnull} where only the other files are wanted",
            ) from None
    entries, size_bytes = ldif.progress()
    duration_s = (time.monotonic_ns() - start_ns) / 1e9
    return Generated(entries, size_bytes, duration_s)
