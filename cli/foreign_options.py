# SPDX-License-Identifier: Apache-2.0
"""What to write in place of options that other tools have."""

from __future__ import annotations

from collections.abc import Mapping

import click

_SERVER = "ldap://HOST:PORT, an argument"
_CLIENTS = "-c N: clients, each with a connection; a time-out is --request-timeout"
_COUNT = "-n N: operations of all clients together"
_JOB_CLIENTS = (
    "--set streams.NAME.load.closed.clients=16, or in an open loop "
    "--set streams.NAME.load.open.connections=16"
)
_PASSWORD = "-y FILE or --password-env NAME: a password is no argument"

_CLIENT_WORDS = ("-c", "--clients", "-t", "--threads", "--numThreads", "-u", "--vus")
_COUNT_WORDS = ("-n", "--count", "-m", "--maxIterations", "--iterations")
_SERVER_WORDS = ("-H", "-p", "--port", "--host", "--hostname", "--uri", "--target")
_BIND_WORDS = ("-D", "-y", "--bind-dn", "--bindDN", "--password-file")

#: For commands that take a server: option of others -> what to write.
_ONE_LINE: Mapping[str, str] = {
    **dict.fromkeys(_SERVER_WORDS, _SERVER),
    **dict.fromkeys(_CLIENT_WORDS, _CLIENTS),
    **dict.fromkeys(_COUNT_WORDS, _COUNT),
    **dict.fromkeys(("--password", "--bindPassword"), _PASSWORD),
    "-W": f"{_PASSWORD}; a pause between requests is --think-time",
    # ldclt's
    "-N": "-d TIME: how long; --interval TIME: of the figures",
    "-T": _COUNT,
    "-E": "--threshold 'errors < 1%'",
    "-I": "--expect CODE: a result code that is no failure",
    "-P": "`verify.replication` of a job file",
    "-S": "`verify.replication` of a job file",
    "-Q": "--json",
    "-V": "`ldapslam -v {command}`",
    "-x": "leave it out: without -Y a bind is simple",
    "--baseDN": "-b DN",
    "--bindDN": "-D DN",
    **dict.fromkeys(("-R", "--rate", "--ratePerSecond"), "-r 500/s"),
    "--useSSL": "an ldaps:// URI",
    "--useStartTLS": "-Z",
}
#: For commands that take a job file: the field of the job.
_JOB: Mapping[str, str] = {
    **dict.fromkeys(("-d", "--duration"), "--set run.duration=30s"),
    **dict.fromkeys(("-r", "--rate"), "--set streams.NAME.load.open.rate=500/s"),
    **dict.fromkeys(_CLIENT_WORDS, _JOB_CLIENTS),
    **dict.fromkeys(_COUNT_WORDS, "--set streams.NAME.count=10000"),
    **dict.fromkeys(_SERVER_WORDS, "--set targets.ROLE=ldap://HOST:PORT"),
    **dict.fromkeys(_BIND_WORDS, "the job's `bind`, or --set bind.dn=DN"),
    **dict.fromkeys(("-e", "--env"), "--var NAME=VALUE"),
    "--output": "--out DIR",
    "--seed": "--set seed=1",
    "--threshold": "--set 'thresholds=[p99 < 20ms]'",
    "--warm-up": "--set run.warm_up=10s",
}
#: For all commands.
_GLOBAL: Mapping[str, str] = {
    **dict.fromkeys(("-v", "--verbose"), "`ldapslam -v {command}`"),
    **dict.fromkeys(("-q", "--quiet", "--silent"), "`ldapslam -q {command}`"),
}

#: A dash and a letter.
_SHORT = 2


def meant(error: click.NoSuchOption) -> str | None:
    """What to write in place of the option."""
    if error.ctx is None:
        return None
    names = {parameter.name for parameter in error.ctx.command.params}
    known = _ONE_LINE if "uris" in names or "uri" in names else {}
    if "job_file" in names:
        known = _JOB
    text = known.get(error.option_name) or _GLOBAL.get(error.option_name)
    if text is None and known is _ONE_LINE and len(error.option_name) == _SHORT:
        text = "docs/how-to/coming-from.md has the options of other tools"
    return text and text.format(command=error.ctx.info_name)
