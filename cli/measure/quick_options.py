# SPDX-License-Identifier: Apache-2.0
"""The options that all quick commands have, and the part of a job that they stand for.

Names are those of ldapsearch and of the rate tools where those agree (-b, -s, -f, -D,
-y, -Z, -c, -r, -n). A password is never an argument: others can read those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ldapslam.base.errors import LdapSlamError
from ldapslam.base.units import DURATION_UNITS
from ldapslam.cli.composed_job import ComposedJob
from ldapslam.cli.measure.run import agents_option, out_option
from ldapslam.cli.options import (
    Command,
    Decorator,
    add_options,
    flag,
    grouped,
    option,
    print_job_option,
    set_option,
)

Options = dict[str, Any]

DEFAULT_CLIENTS = 16
DEFAULT_DURATION = "10s"


def _no_password(_: click.Context, __: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(
            "-w: a password is not taken from the command line, which other users of "
            "the host can read; use -y FILE or --password-env NAME"
        )


def _uris(
    _: click.Context, __: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    for uri in value:
        check_uri(uri)
    return value


def check_uri(uri: str) -> None:
    """UsageError for a host that is written without a scheme."""
    if "://" not in uri:
        if Path(uri).is_file() and Path(uri).suffix in (".pem", ".crt", ".cer"):
            raise click.UsageError(
                f"expected a URI, got the file {uri!r}: -Z takes no file; the "
                f"authorities are --ca-file {uri}"
            )
        remedy = f"write ldap://{uri.rpartition(':/')[2].lstrip('/')}"
        if uri.startswith("("):
            remedy = f"write -f {uri!r} if it is a filter"
        elif uri.removeprefix("/") in DURATION_UNITS:
            remedy = "a number and its unit are one word"
        elif uri.endswith((".yaml", ".yml")):
            remedy = "`ldapslam run` takes a job file, and this command none"
        elif uri.isalpha():
            remedy += f", or -a {uri} where it is an attribute"
        raise click.UsageError(f"expected a URI, got {uri!r}: {remedy}")


#: The bind of connections, and TLS.
authentication_options = grouped(
    "Authentication",
    option("-D --bind-dn DN", "Bind connections as this DN."),
    option(
        "-y --password-file FILE",
        "Its password, in a file; the line end is not part of it.",
    ),
    option("--password-env NAME", "Its password, in an environment variable."),
    option("-w no_password", hidden=True, callback=_no_password, expose_value=False),
    option("-Y --sasl MECH", "SASL mechanism of the connections' bind."),
    option("-U --authcid ID", "SASL: the identity that authenticates."),
)
connection_options = add_options(
    authentication_options,
    grouped(
        "Connection",
        flag("-Z --start-tls", "StartTLS before the bind."),
        option("--ca-file FILE", "PEM file of the trusted authorities."),
        option("--cert-file FILE", "PEM file of our certificate."),
        option("--key-file FILE", "PEM file of its key."),
        flag("--no-verify", "Do not check the server's certificate and name."),
    ),
)
#: What `run` has too, and --print-job.
run_options = grouped(
    "Run and output",
    option("--seed N", "Seed of all random values.", type=int),
    option(
        "--threshold thresholds EXPR",
        "What must hold to PASS: 'p99 < 20ms', 'errors < 0.1%', 'throughput > 500/s'. "
        "Repeatable.",
        multiple=True,
    ),
    print_job_option,
    agents_option,
    set_option,
    out_option,
)
load_options = grouped(
    "Load",
    option(
        "-c --clients N",
        "Clients, each with a connection; with -r: connections.",
        type=int,
        default=DEFAULT_CLIENTS,
    ),
    option(
        "-r --rate RATE",
        "Open loop: arrivals (500/s, 2k/s, 90/m), whether or not the server "
        "keeps up. Without it, closed loop: each client sends its next request after "
        "the response to the previous one.",
    ),
    option("--think-time TIME", "Without -r: pause of a client between requests."),
    option(
        "-d --duration TIME",
        f"Length of the measurement (30s, 5m); {DEFAULT_DURATION} without -n.",
    ),
    option(
        "-n --count N",
        "End after this many operations, of all clients together.",
        type=int,
    ),
    option("--warm-up TIME", "Full load before the measurement."),
)
#: URI… and the options of every quick command.
common_options = add_options(
    click.argument(
        *("uris",),
        metavar="URI…",
        nargs=-1,
        required=True,
        is_eager=True,
        callback=_uris,
    ),
    load_options,
    connection_options,
    grouped(
        "Connection",
        option(
            "--reconnect-every N|TIME",
            "A new connection after this many operations, or this time.",
        ),
    ),
    grouped(
        "Requests",
        option(
            "--expect CODE,…",
            "Result codes that are no failures, such as noSuchObject.",
            multiple=True,
        ),
    ),
    grouped(
        "Run and output",
        option(
            "--name",
            "Name of the job, in reports; that of the command when left out.",
        ),
    ),
    run_options,
)


def quick_options(*own: Decorator) -> Callable[[Command], Command]:
    """Add the options of a quick command: those of its operation, then the rest."""
    return add_options(grouped("Operation", *own), common_options)


#: Short options of fields; that of another one is its name.
_SHORT = {
    **{"authcid": "-U", "clients": "-c", "count": "-n", "duration": "-d"},
    **{"rate": "-r", "start_tls": "-Z", "base": "-b", "scope": "-s", "filter": "-f"},
}


def compose(kind: str, uris: Sequence[str], given: Options) -> ComposedJob:
    """The part of the job that all commands have alike."""
    job = compose_head(kind, uris, given, "URI")
    if given["name"] is not None:
        job.put(("name",), given["name"], "--name")
    job.tree["run"] = {}
    if given["duration"] is None and given["count"] is None:
        given = {**given, "duration": DEFAULT_DURATION}
    _put_given(job, ("run",), given, "duration", "warm_up")
    stream = ("streams", 0)
    job.put((*stream, "name"), "load", "")
    job.put((*stream, "target"), "directory", "")
    _put_load(job, given)
    _put_given(job, stream, given, "count")
    if (every := given["reconnect_every"]) is not None:
        value = int(every) if every.isdecimal() else every
        path = (*stream, "connection", "reconnect_every")
        job.put(path, value, "--reconnect-every")
    _put_given(job, (), given, "seed")
    for number, threshold in enumerate(given["thresholds"]):
        job.put(("thresholds", number), threshold, "--threshold")
    return job


def compose_head(
    name: str, uris: Sequence[str], given: Options, uri_option: str
) -> ComposedJob:
    """A job with its targets, bind and TLS."""
    job = ComposedJob(name)
    job.put(("name",), name, "")
    job.put(("targets", "directory"), list(uris), uri_option)
    _put_bind(job, given)
    _put_given(job, ("tls",), given, "start_tls", "ca_file", "cert_file", "key_file")
    if given["no_verify"]:
        job.put(("tls", "verify"), False, "--no-verify")
    return job


def _put_given(
    job: ComposedJob, path: Sequence[str | int], given: Options, *names: str
) -> None:
    """The fields that options of the same names are for."""
    for name in names:
        if given[name] is not None and given[name] is not False:
            job.put((*path, name), given[name], option_of(name))


def option_of(name: str) -> str:
    """The option of a field, as typed."""
    return _SHORT.get(name, f"--{name.replace('_', '-')}")


def _put_bind(job: ComposedJob, given: Options) -> None:
    password = _password(given)
    if given["sasl"] is not None:
        job.put(("bind", "sasl", "mechanism"), given["sasl"], "-Y")
        if password:
            job.put(("bind", "sasl", "password"), *password)
        _put_given(job, ("bind", "sasl"), given, "authcid")
        if given["bind_dn"] is not None:
            raise click.UsageError("-D is for a simple bind; with -Y, use -U")
        return
    if given["authcid"] is not None:
        raise click.UsageError("-U is for a SASL bind: it needs -Y MECH")
    if given["bind_dn"] is None:
        if password:
            raise click.UsageError(f"{password[1]} needs -D: whose password it is")
        return
    if not password:
        raise click.UsageError("-D needs its password: -y FILE or --password-env NAME")
    job.put(("bind", "dn"), given["bind_dn"], "-D")
    job.put(("bind", "password"), *password)


def _password(given: Options) -> tuple[dict[str, str], str] | None:
    file, variable = given["password_file"], given["password_env"]
    if file is not None and variable is not None:
        raise click.UsageError("-y and --password-env: give one of them")
    if file is not None:
        return {"file": str(Path(file).absolute())}, "-y"
    return ({"env": variable}, "--password-env") if variable is not None else None


def _put_load(job: ComposedJob, given: Options) -> None:
    load = ("streams", 0, "load")
    if given["rate"] is None:
        _put_given(job, load, given, "clients", "think_time")
        return
    if given["think_time"] is not None:
        raise click.UsageError(
            "--think-time is for a closed loop: with -r, arrivals do not wait"
        )
    job.put((*load, "rate"), given["rate"], "-r")
    job.put((*load, "connections"), given["clients"], "-c")


_WORDS = (
    ("the password that `bind.password` names", "the password of -y or --password-env"),
    ("without `bind` in the job", "without -D"),
    ("`bind.dn`", "-D"),
    ("`tls.ca_file`", "--ca-file"),
    ("`tls: {start_tls: true}`", "-Z"),
    ("in `targets`", "in the URI"),
)


@contextmanager
def in_words_of_options() -> Iterator[None]:
    """Within, hints name options in place of fields of the job."""
    try:
        yield
    except LdapSlamError as error:
        for key, words in _WORDS:
            error.hint = error.hint and error.hint.replace(key, words)
        raise
