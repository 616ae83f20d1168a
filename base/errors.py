# SPDX-License-Identifier: Apache-2.0
"""The errors of the whole tool, and the exit codes they lead to.

LdapSlamError
  JobError, JobErrors      a fault of a job file; all the faults of a job file
  ConfigError              settings, options; ConfigErrors: several at once
  FleetError               CoordinatorUnreachable AgentUnreachable AgentLost
                           AgentVersionMismatch NotEnoughAgents AccessRefused
                           AgentLimitExceeded
  TargetError              TargetUnreachable BindRejected TlsHandshakeFailed
                           TargetNotAllowed PopulationMismatch
  RunError                 RunAborted
  StoreError               NoStore RunNotFound AmbiguousRun OtherSchema StoreBusy
                           StoreFull
  ReportError
  EngineError              a broken invariant of the C engine; never expected

A message says what failed, with the value; the hint says what to do. The values are
attributes too, named as the constructor's parameters, so that callers need not parse
text. Every error survives pickling and `to_dict`/`from_dict`, because errors cross
process and network borders; `from_dict` trusts nobody. LDAP result codes received
during a run are data, never errors.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import UnionType
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from ldapslam.base.inert import one_line


class ExitCode(IntEnum):
    """What the shell sees; EXIT_CODE_MEANING describes each in one line."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    INVALID = 3
    NO_BASELINE = 4
    FLEET = 5
    TARGET = 6
    INTERNAL = 70
    INTERRUPTED = 130


EXIT_CODE_MEANING: Mapping[ExitCode, str] = {
    ExitCode.PASS: "done; where a run was judged, its verdict is PASS",
    ExitCode.FAIL: "FAIL: a threshold was missed, or replicas differ",
    ExitCode.USAGE: "wrong usage, or a fault in the job file or the settings",
    ExitCode.INVALID: "INVALID: the numbers cannot be certified",
    ExitCode.NO_BASELINE: "nothing to compare: a side has no valid run",
    ExitCode.FLEET: "fleet: no agents, agent refused, coordinator unreachable",
    ExitCode.TARGET: "target: unreachable, bind refused, TLS failed, not allowed",
    ExitCode.INTERNAL: "internal error",
    ExitCode.INTERRUPTED: "interrupted",
}


class LdapSlamError(Exception):
    """Root of all errors. `str()` is the message; the CLI prints the hint below it."""

    exit_code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses build their message from values, so `args` cannot call them again.
        return _restore, (type(self), self.args, self.__dict__)

    def to_dict(self) -> dict[str, Any]:
        """The error as JSON-able data; `from_dict` makes an equal error of it."""
        return {
            "class": type(self).__name__,
            "message": str(self),
            "values": {name: _plain(value) for name, value in vars(self).items()},
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> LdapSlamError:
        """The error that `to_dict` was made of; the root when its class or values are
        wrong."""
        given = {name: _unplain(value) for name, value in data["values"].items()}
        given.setdefault("hint", None)
        cls = _classes().get(data["class"], LdapSlamError)
        values = _values_of(cls, given)
        if values is None:
            cls, values = LdapSlamError, _values_of(LdapSlamError, given)
        message = one_line(str(data["message"]))
        if values and (faults := values.get("faults")):
            message = "\n".join(map(str, faults))
        return _restore(cls, (message,), values or {"hint": None})


class JobError(LdapSlamError):
    """One fault of a job file, with its position (line and column count from 1)."""

    exit_code = ExitCode.USAGE

    def __init__(
        self,
        reason: str,
        *,
        file: str,
        line: int | None = None,
        column: int | None = None,
        path: str = "",
        hint: str | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (file, line, column) if part is not None)
        super().__init__(": ".join(filter(None, (place, path, reason))), hint=hint)
        self.reason = reason
        #: Job file as the user named it, or `--set:N` for the N-th override.
        self.file = file
        self.line = line
        self.column = column
        #: Field in dotted form, `streams[0].load.rate`; empty for the whole file.
        self.path = path


class JobErrors(LdapSlamError):
    """All faults of a job file at once, in the order of their positions."""

    exit_code = ExitCode.USAGE

    def __init__(self, faults: Sequence[JobError]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        #: At least one; each has its own hint.
        self.faults = tuple(faults)


class ConfigError(LdapSlamError):
    """A setting or an option of the command line is wrong."""

    exit_code = ExitCode.USAGE


class ConfigErrors(ConfigError):
    """Several of them, found at once."""

    def __init__(self, faults: Sequence[ConfigError]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        #: At least one; each has its own hint.
        self.faults = tuple(faults)


class FleetError(LdapSlamError):
    """The coordinator or its agents cannot do what was asked."""

    exit_code = ExitCode.FLEET


class CoordinatorUnreachable(FleetError):
    def __init__(self, address: str, detail: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"coordinator {address!r} did not answer: {detail}",
            hint=hint
            or "is `ldapslam coordinator` running there, and its port open from "
            "this host?",
        )
        self.address = address
        self.detail = detail


class AgentUnreachable(FleetError):
    def __init__(self, agent: str, timeout_s: float) -> None:
        super().__init__(
            f"agent {agent!r} did not answer within {timeout_s:g} s",
            hint="is `ldapslam agent` running there, and can it reach the coordinator?",
        )
        self.agent = agent
        self.timeout_s = timeout_s


class AgentLost(FleetError):
    def __init__(self, agent: str, silent_s: float) -> None:
        super().__init__(
            f"agent {agent!r} was lost: nothing heard for {silent_s:.1f} s",
            hint="see the agent's log; its spool keeps what it measured and is "
            "delivered when it connects again",
        )
        self.agent = agent
        self.silent_s = silent_s


class AgentVersionMismatch(FleetError):
    def __init__(
        self,
        agent: str,
        agent_version: str,
        coordinator_version: str,
        *,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            f"agent {agent!r} speaks {agent_version}, "
            f"the coordinator {coordinator_version}",
            hint=hint or "install the same ldapslam on both",
        )
        self.agent = agent
        self.agent_version = agent_version
        self.coordinator_version = coordinator_version


class AccessRefused(FleetError):
    """The certificate, or the lack of one, does not allow what was asked."""


class AgentLimitExceeded(FleetError):
    """An agent's share of a run is more than its operator allows."""

    def __init__(self, agent: str, share: str, limit: str, setting: str) -> None:
        super().__init__(
            f"agent {agent!r} may not take its share of the run: it has {share}, "
            f"allowed are {limit}",
            hint=f"spread the load over more agents, lower it, or raise `{setting}` in "
            "the agent's settings",
        )
        self.agent = agent
        self.share = share
        self.limit = limit
        self.setting = setting


class NotGranted(FleetError):
    """An agent's operator keeps something of its host from jobs."""

    def __init__(
        self, agent: str, what: str, setting: str = "", rule: str = ""
    ) -> None:
        super().__init__(
            f"agent {agent!r} may not {what} for a job",
            hint=f"its operator can allow that: `{setting} = {rule!r}` in the agent's "
            f"settings, or --{setting}"
            if setting
            else "it is the agent's own, or the system's: no setting allows it",
        )
        self.agent = agent
        self.what = what
        self.setting = setting
        self.rule = rule


def _first(names: Sequence[str], most: int = 8) -> Sequence[str]:
    more = len(names) - most
    return [*names[:most], f"and {more} more"] if more > 0 else names


class NotEnoughAgents(FleetError):
    def __init__(
        self,
        wanted: str,
        available: Sequence[str],
        ineligible: Sequence[str] | None = None,
    ) -> None:
        names = ", ".join(_first(available)) or "none"
        remedy = (
            "start more with `ldapslam agent --coordinator …`, or change the job's "
            "`agents`"
        )
        super().__init__(
            f"the job wants {wanted}, available: {names}",
            hint="; ".join([*_first(ineligible or ()), remedy]),
        )
        self.wanted = wanted
        self.available = list(available)
        #: None in stores of earlier versions.
        self.ineligible = list(ineligible or ())


class TargetError(LdapSlamError):
    """A directory under test cannot be used."""

    exit_code = ExitCode.TARGET


class _TargetFault(TargetError):
    """What a server and a detail say. The texts may name both."""

    _message: ClassVar[str]
    _hint: ClassVar[str | None] = None

    def __init__(self, uri: str, detail: str, *, hint: str | None = None) -> None:
        message = self._message.format(uri=uri, detail=detail)
        super().__init__(message, hint=hint or self._hint)
        self.uri = uri
        self.detail = detail


class TargetUnreachable(_TargetFault):
    _message = "target {uri!r} cannot be reached: {detail}"
    _hint = "is the directory running, and is the host and port right?"


class TlsHandshakeFailed(_TargetFault):
    _message = "TLS with target {uri!r} failed: {detail}"
    _hint = "check the server's certificate, its host name and `tls.ca_file`"


class PopulationMismatch(_TargetFault):
    """A server does not hold the job's population."""

    _message = "target {uri!r} does not hold the job's population: {detail}"
    _hint = (
        "load it again (`ldapslam data load`); `ldapslam data verify` names every "
        "difference. `data verify --ignore ATTRIBUTE` leaves out what runs "
        "change; an identity that may not read all attributes sees other entries"
    )


class BindRejected(TargetError):
    def __init__(
        self,
        uri: str,
        bind_dn: str | None,
        result_code: int,
        diagnostic_message: str,
        *,
        hint: str | None = None,
    ) -> None:
        who = "the anonymous bind" if bind_dn is None else f"the bind as {bind_dn!r}"
        text = f": {diagnostic_message}" if diagnostic_message else ""
        super().__init__(
            f"target {uri!r} rejected {who} with result code {result_code}{text}",
            hint=hint or "check `bind.dn` and the password that `bind.password` names",
        )
        self.uri = uri
        self.bind_dn = bind_dn
        self.result_code = result_code
        self.diagnostic_message = diagnostic_message


class TargetNotAllowed(TargetError):
    def __init__(
        self, uri: str, agent: str, detail: str = "", *, hint: str | None = None
    ) -> None:
        why = f": {detail}" if detail else ""
        super().__init__(
            f"agent {agent!r} may not load target {uri!r}{why}",
            hint=hint or "allow it in the agent's settings: `allow-target`",
        )
        self.uri = uri
        self.agent = agent
        self.detail = detail


class RunError(LdapSlamError):
    """A run did not come to its end as planned."""

    exit_code = ExitCode.INVALID


class RunAborted(RunError):
    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"the run was stopped early: {reason}", hint=hint)
        self.reason = reason


class StoreError(LdapSlamError):
    """The results store cannot be read or written."""


class NoStore(StoreError):
    """What was named as the results store is none, or cannot be opened here."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(
            message,
            hint=hint
            or "a results store is a file, a run's folder, or a URL such as "
            "postgresql://USER@HOST/DATABASE",
        )


class RunNotFound(StoreError):
    exit_code = ExitCode.USAGE

    def __init__(self, run_id: str, *, hint: str | None = None) -> None:
        super().__init__(
            f"no run {run_id!r}", hint=hint or "`ldapslam list` shows the runs"
        )
        self.run_id = run_id


#: Runs that a hint lists.
_SHOWN_RUNS = 10


class AmbiguousRun(StoreError):
    """Several runs have ids that begin with what was given."""

    exit_code = ExitCode.USAGE

    def __init__(self, run_id: str, run_ids: Sequence[str]) -> None:
        more = ", …" * (len(run_ids) > _SHOWN_RUNS)
        super().__init__(
            f"run {run_id!r} is ambiguous: {len(run_ids)} runs begin with it",
            hint=f"name one of them: {', '.join(run_ids[:_SHOWN_RUNS])}{more}",
        )
        self.run_id = run_id
        self.run_ids = run_ids


class OtherSchema(StoreError):
    exit_code = ExitCode.USAGE

    def __init__(self, url: str, found: int | None, known: int) -> None:
        super().__init__(
            f"store {url!r} has schema {found}, this ldapslam has schema {known}",
            hint="use the ldapslam that wrote it, or a new store; reports can be kept",
        )
        self.url = url
        self.found = found
        self.known = known


class StoreRefused(StoreError):
    """The store will never take this write: a defect of ours, with what it said."""


class NotAsJudged(LdapSlamError):
    """A run or result is not what its verdict was given for, or nobody can tell."""

    exit_code = ExitCode.INVALID


class StoreTaken(StoreRefused):
    """Another coordinator owns the store now."""

    def __init__(self, url: str, owner: str) -> None:
        super().__init__(
            f"store {url!r} is now that of another coordinator: {owner}",
            hint="this one writes nothing any more, and ends",
        )
        self.url = url
        self.owner = owner


class StoreBusy(StoreError):
    def __init__(self, url: str, timeout_s: float) -> None:
        super().__init__(
            f"store {url!r} stayed locked for {timeout_s:g} s",
            hint="another process is writing to it; stop that or use another --store",
        )
        self.url = url
        self.timeout_s = timeout_s


class StoreFull(StoreError):
    def __init__(self, url: str, detail: str) -> None:
        super().__init__(
            f"there is no room left for store {url!r}: {detail}",
            hint="make room on its disk; what was not stored waits in the agents' "
            "spools and is delivered then",
        )
        self.url = url
        self.detail = detail


class ReportError(LdapSlamError):
    """A report cannot be made."""


class EngineError(LdapSlamError):
    """The C engine broke its contract: a defect of ours, with what it said."""


def _restore(
    cls: type[LdapSlamError], args: tuple[Any, ...], values: Mapping[str, Any]
) -> LdapSlamError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(values)
    return error


def _classes() -> dict[str, type[LdapSlamError]]:
    found: dict[str, type[LdapSlamError]] = {}
    pending: list[type[LdapSlamError]] = [LdapSlamError]
    while pending:
        cls = pending.pop()
        found[cls.__name__] = cls
        pending += cls.__subclasses__()
    return found


def _values_of(
    cls: type[LdapSlamError], given: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Of the values given those that an error of `cls` has; None when one is wrong."""
    kinds = {"hint": str | None, **get_type_hints(cls.__init__)}
    names = {"hint", *inspect.signature(cls).parameters} - {"message"}
    values = {name: given.get(name) for name in names}
    if not all(_is_a(value, kinds[name]) for name, value in values.items()):
        return None
    return values


def _is_a(value: object, kind: Any) -> bool:
    if isinstance(kind, UnionType):
        return any(_is_a(value, one) for one in get_args(kind))
    if get_origin(kind) is Sequence:
        (item,) = get_args(kind)
        return isinstance(value, list) and all(_is_a(one, item) for one in value)
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _plain(value: Any) -> Any:
    if isinstance(value, LdapSlamError):
        return value.to_dict()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _unplain(value: Any) -> Any:
    if isinstance(value, Mapping) and "class" in value:
        return LdapSlamError.from_dict(value)
    if isinstance(value, list):
        return [_unplain(item) for item in value]
    return one_line(value) if isinstance(value, str) else value
