# SPDX-License-Identifier: Apache-2.0
"""The options that all one-line commands have, and the part of a job they stand for.

Names are those of ldapsearch and of the rate tools where those agree (-b, -s, -f, -D,
-y, -Z, -c, -r, -n). A password is never an argument: others can read those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.console import add_options, json_option
from ldapslam.cli.measure.composed_job import ComposedJob
from ldapslam.cli.measure.run import agents_option, out_option
from ldapslam.cli.options import set_option
from ldapslam.jobs.operations.controls import BARE_CONTROLS, CONTROLS

Options = dict[str, Any]
_Options = Sequence[Callable[[Any], Any]]

#: Name of the one stream that a command makes, and of the second one, if it needs one.
STREAM = "load"
BINDS = "binds"

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
    strangers = [uri for uri in value if "://" not in uri]
    if strangers:
        raise click.UsageError(
            f"expected URIs such as ldap://ds1.example.com, got {strangers[0]!r}"
        )
    return value


_URIS: _Options = (
    click.argument(
        "uris",
        metavar="URI…",
        nargs=-1,
        required=True,
        is_eager=True,
        callback=_uris,
    ),
)

#: Whom connections bind as, and TLS.
_CONNECTION: _Options = (
    click.option("-D", "--bind-dn", metavar="DN", help="Whom connections bind as."),
    click.option(
        *("-y", "--password-file"),
        metavar="FILE",
        help="Its password, in a file; the line end is not part of it.",
    ),
    click.option(
        "--password-env",
        metavar="NAME",
        help="Its password, in an environment variable.",
    ),
    click.option(
        "-w", "no_password", hidden=True, callback=_no_password, expose_value=False
    ),
    click.option(
        "-Y", "--sasl", metavar="MECH", help="SASL mechanism of the connections' bind."
    ),
    click.option("-U", "--authcid", metavar="ID", help="SASL: who authenticates."),
    click.option("-X", "--authzid", metavar="ID", help="SASL: as whom to act."),
    click.option("--realm", metavar="REALM", help="SASL: the realm."),
    click.option("-Z", "--start-tls", is_flag=True, help="StartTLS before the bind."),
    click.option(
        "--ca-file", metavar="FILE", help="PEM file of the trusted authorities."
    ),
    click.option("--cert-file", metavar="FILE", help="PEM file of our certificate."),
    click.option("--key-file", metavar="FILE", help="PEM file of its key."),
    click.option(
        "--no-verify",
        is_flag=True,
        help="Do not check the server's certificate and name.",
    ),
)

#: How requests arrive, and what else is said of them.
_LOAD: _Options = (
    click.option(
        *("-c", "--clients"),
        metavar="N",
        type=int,
        default=DEFAULT_CLIENTS,
        show_default=True,
        help="Clients, each with a connection; with -r: connections.",
    ),
    click.option(
        *("-r", "--rate"),
        metavar="RATE",
        help="Open loop: so many arrivals a second (500, 2k/s, 90/m), whether or not "
        "the server keeps up. Without it, closed loop: each client sends when its last "
        "answer is there.",
    ),
    click.option(
        "--arrivals",
        metavar="KIND",
        help="With -r: constant (the default), poisson or uniform.",
    ),
    click.option(
        "--rate-file",
        metavar="FILE",
        help="Open loop: rates over time, of a CSV file or one of searchrate's; its "
        "0.75x are multiples of -r.",
    ),
    click.option(
        "--in-flight",
        metavar="N",
        type=int,
        help="With -r: most requests in flight on a connection.",
    ),
    click.option(
        "--think-time",
        metavar="TIME",
        help="Without -r: pause of a client between requests.",
    ),
    click.option(
        *("-d", "--duration"),
        metavar="TIME",
        help=f"Length of the measurement (30s, 5m); {DEFAULT_DURATION} without -n.",
    ),
    click.option(
        *("-n", "--count"),
        metavar="N",
        type=int,
        help="End after so many operations, of all clients together.",
    ),
    click.option("--ramp-up", metavar="TIME", help="Rise to the full load, first."),
    click.option("--warm-up", metavar="TIME", help="Full load before the measurement."),
    click.option("--cool-down", metavar="TIME", help="Full load after it."),
    click.option("--interval", metavar="TIME", help="Length of a line of figures: 1s."),
    click.option(
        "--reconnect-every",
        metavar="N|TIME",
        help="A new connection after so many operations, or so long.",
    ),
    click.option(
        "--connect-timeout", metavar="TIME", help="Longest set-up of a connection."
    ),
    click.option(
        "--request-timeout", metavar="TIME", help="Longest wait for an answer."
    ),
    click.option(
        "--expect",
        metavar="CODE,…",
        multiple=True,
        help="Result codes that are no failures, such as noSuchObject.",
    ),
    click.option(
        *("-J", "--control", "controls"),
        metavar="OID[:critical[:value]]",
        multiple=True,
        help="A request control, or its name (manage_dsa_it); ::base64 for a binary "
        "value. Repeatable.",
    ),
)

#: What `run` has too, and --print-job.
_RUN: _Options = (
    click.option("--seed", metavar="N", type=int, help="Of all random values."),
    click.option(
        "--threshold",
        "thresholds",
        metavar="EXPR",
        multiple=True,
        help="What must hold to PASS: 'p99 < 20ms', 'errors < 0.1%', 'throughput > "
        "500/s'. Repeatable.",
    ),
    click.option(
        "--print-job", is_flag=True, help="Print the job file and run nothing."
    ),
    agents_option,
    set_option,
    out_option,
    json_option,
)


#: URI… and the options of every one-line command.
common_options = add_options(*_URIS, *_CONNECTION, *_LOAD, *_RUN)
#: Those of a command whose load is not its options'.
connection_options = add_options(*_CONNECTION)
run_options = add_options(*_RUN)


def compose(kind: str, uris: Sequence[str], given: Options) -> ComposedJob:
    """The part of the job that all commands have alike."""
    job = compose_head(kind, uris, given, "URI")
    _put_run(job, given)
    _put_stream(job, given)
    put_tail(job, given)
    return job


def compose_head(
    name: str, uris: Sequence[str], given: Options, uri_option: str
) -> ComposedJob:
    """A job with its targets and what connections need."""
    job = ComposedJob(name)
    job.put(("job",), name, "")
    job.put(("targets", "directory"), list(uris), uri_option)
    _put_identity(job, given)
    _put_tls(job, given)
    return job


def put_tail(job: ComposedJob, given: Options) -> None:
    """What --seed and --threshold say."""
    if given["seed"] is not None:
        job.put(("seed",), given["seed"], "--seed")
    for number, threshold in enumerate(given["thresholds"]):
        job.put(("thresholds", number), _threshold(threshold), "--threshold")


def put_operation(
    job: ComposedJob, number: int, operation: dict[str, Any], places: dict[str, str]
) -> None:
    """An operation, with what the common options say of each. `places` maps its fields
    to options."""
    path = ("streams", 0, "operations", number)
    job.put(path, operation, "")
    for name, option in places.items():
        job.places[f"streams[0].operations[{number}].{name}"] = option


def extras(given: Options, kind: str) -> dict[str, Any]:
    """What --expect and -J add to an operation. The job file's list is complete: it
    has the successes too."""
    found: dict[str, Any] = {}
    if given["expect"]:
        codes = [code for text in given["expect"] for code in re.split("[, ]+", text)]
        found["expect"] = [
            *_SUCCESSES.get(kind, ("success",)),
            *(_code(code) for code in codes if code),
        ]
    if given["controls"]:
        found["controls"] = [_control(text) for text in given["controls"]]
    return found


_SUCCESSES = {"compare": ("compareFalse", "compareTrue")}
EXTRA_PLACES = {"expect": "--expect", "controls": "-J"}


#: Short options of fields; that of another one is its name.
_SHORT = {
    "authcid": "-U",
    "authzid": "-X",
    "count": "-n",
    "start_tls": "-Z",
}


def _option(name: str) -> str:
    return _SHORT.get(name, f"--{name.replace('_', '-')}")


def _put_given(
    job: ComposedJob, path: Sequence[str | int], given: Options, *names: str
) -> None:
    """The fields that options of the same names are for."""
    for name in names:
        if given[name] is not None and given[name] is not False:
            job.put((*path, name), given[name], _option(name))


def _refuse(given: Options, names: Sequence[str], why: str) -> None:
    for name in names:
        if given[name] is not None:
            raise click.UsageError(f"{_option(name)} {why}")


def _put_identity(job: ComposedJob, given: Options) -> None:
    password, sasl = _password(given), ("authcid", "authzid", "realm")
    if given["sasl"] is not None:
        job.put(("bind", "sasl", "mechanism"), given["sasl"], "-Y")
        if password:
            job.put(("bind", "sasl", "password"), *password)
        _put_given(job, ("bind", "sasl"), given, *sasl)
        if given["bind_dn"] is not None:
            raise click.UsageError("-D is for a simple bind; with -Y, use -U or -X")
        return
    _refuse(given, sasl, "is for a SASL bind: it needs -Y MECH")
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


def _put_tls(job: ComposedJob, given: Options) -> None:
    _put_given(job, ("tls",), given, "start_tls", "ca_file", "cert_file", "key_file")
    if given["no_verify"]:
        job.put(("tls", "verify"), False, "--no-verify")


def _put_run(job: ComposedJob, given: Options) -> None:
    duration = given["duration"]
    if duration is None and given["count"] is None:
        duration = DEFAULT_DURATION
    job.tree["run"] = {}
    if duration is not None:
        job.put(("run", "duration"), duration, "-d")
    _put_given(job, ("run",), given, "ramp_up", "warm_up", "cool_down", "interval")


def _put_stream(job: ComposedJob, given: Options) -> None:
    stream = ("streams", 0)
    job.put((*stream, "name"), STREAM, "")
    job.put((*stream, "target"), "directory", "")
    _put_load(job, given)
    _put_given(job, stream, given, "count")
    connection = (*stream, "connection")
    if (every := given["reconnect_every"]) is not None:
        value = int(every) if every.isdecimal() else every
        job.put((*connection, "reconnect_every"), value, "--reconnect-every")
    _put_given(job, connection, given, "connect_timeout")
    _put_given(job, stream, given, "request_timeout")


def _put_load(job: ComposedJob, given: Options) -> None:
    load = ("streams", 0, "load")
    if given["rate"] is None and given["rate_file"] is None:
        _refuse(given, ("arrivals", "in_flight"), "is for an open loop: it needs -r")
        job.put((*load, "closed", "clients"), given["clients"], "-c")
        _put_given(job, (*load, "closed"), given, "think_time")
        return
    why = "is for a closed loop: with -r, arrivals do not wait"
    _refuse(given, ("think_time",), why)
    if given["rate"] is not None:
        job.put((*load, "open", "rate"), _rate(given["rate"]), "-r")
    if given["rate_file"] is not None:
        job.put((*load, "open", "stages", "file"), given["rate_file"], "--rate-file")
    _put_given(job, (*load, "open"), given, "arrivals")
    job.put((*load, "open", "connections"), given["clients"], "-c")
    _put_given(job, (*load, "open"), given, "in_flight")


def _rate(text: str) -> str:
    """A bare number is per second, as it is for every rate tool."""
    return f"{text}/s" if re.fullmatch(r"[\d.]+[kM]?", text) else text


def _threshold(text: str) -> str:
    """`p99 < 5ms` is a response time's, of every operation."""
    subject, comparison, rest = re.split(r"(?=[<>=])", text, maxsplit=1)[0], "", ""
    rest = text[len(subject) :]
    subject = subject.strip()
    if re.fullmatch(r"(p\d+(_\d+)?|mean|min|max)", subject):
        subject = f"response_time.{subject}"
    if subject.count(".") < 2:
        subject = f"*.*.{subject}"
    return f"{subject} {comparison}{rest}".strip()


def _code(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def _control(text: str) -> dict[str, Any] | str:
    """OID[:criticality[:value]] or OID[:criticality]::base64, as searchrate has it; or
    a name that job files know."""
    if text in CONTROLS:
        return text
    match = re.fullmatch(
        r"([\d.]+)(?::(true|false|yes|no|critical|))?(?::(:?)(.*))?", text, re.I
    )
    if match is None:
        raise click.UsageError(
            f"-J: expected OID[:critical[:value]], got {text!r}: such as "
            "2.16.840.1.113730.3.4.2:true; without a value also by name: "
            f"{', '.join(BARE_CONTROLS)}"
        )
    control: dict[str, Any] = {"oid": match[1]}
    if match[2]:
        control["critical"] = match[2].lower() in ("true", "yes", "critical")
    if match[4] is not None:
        control["value"] = f"base64:{match[4]}" if match[3] else match[4]
    return control


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
    """Within, a hint names the options that stand for what it speaks of."""
    try:
        yield
    except LdapSlamError as error:
        for key, option in _WORDS:
            error.hint = error.hint and error.hint.replace(key, option)
        raise
