# SPDX-License-Identifier: Apache-2.0
"""Job types written in Python: the base class, and what a class is given to work with.

    class Login(PythonJob):
        operations = ("login",)

        def run(self, client):
            with client.operation("login"):
                client.connection.simple_bind_s("uid=user.1,dc=example", "secret")

Every virtual client is a process of its own with one object of the class, one
python-ldap connection and one thread. `run` is one session: in a closed loop it is
called again when it has returned, in an open loop once for each arrival. What it does
within `client.operation(…)` is measured, anything else is not. See
docs/how-to/python-jobs.md.

The class runs on the agents and must be installed there; this module is all of
ldapslam that it needs. It may assume nothing of other clients: they are other
processes.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import ldap
from ldap.ldapobject import SimpleLDAPObject

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.base.inert import parse_json
from ldapslam.directory.access import diagnostic_message_of, result_code_of
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.model import PYTHON_SUCCESS_CODES

if TYPE_CHECKING:
    from ldapslam.agent._engine import SharedRecorder

#: enum slam_outcome of the engine.
SUCCEEDED, FAILED, EXPECTED, TIMED_OUT, UNRESOLVED = range(5)

#: libldap's codes: no response in time, connection lost. A class may set `result_code`
#: to them.
TIME_OUT = -5
LOST = -1
_LOST = frozenset({LOST, -2, -11})

MAX_NOTES = 100
MAX_NOTE_CHARACTERS = 4_000
MAX_NOTE_DEPTH = 4

_ENTRY_KINDS = (
    ldap.RES_SEARCH_ENTRY,
    ldap.RES_SEARCH_REFERENCE,
    ldap.RES_SEARCH_RESULT,
)
#: Functions of python-ldap that send a request, and its kind.
_REQUESTS = {
    "simple_bind": "bind",
    "sasl_bind_s": "bind",
    "sasl_interactive_bind_s": "bind",
    "search_ext": "search",
    "add_ext": "add",
    "modify_ext": "modify",
    "delete_ext": "delete",
    "rename": "modify_dn",
    "compare_ext": "compare",
    "abandon_ext": "abandon",
    "extop": "extended",
    "passwd": "extended",
    "whoami_s": "extended",
    "start_tls_s": "extended",
    "cancel": "extended",
    "unbind_ext": "unbind",
}
REQUEST_KINDS = tuple(sorted(set(_REQUESTS.values())))


class ClassFault(Exception):
    """The class broke the rules of this module; ends the run."""


class RunStopped(Exception):
    """The run ends while the class waits: it leaves `run`, and nobody is to blame."""


class PythonJob:
    """Base of the classes that the `python` of a stream names."""

    #: What `run` records, as reports name it; at least one.
    operations: ClassVar[tuple[str, ...]] = ()
    #: False: there is no `client.connection`.
    connects: ClassVar[bool] = True
    #: False: its processes are not judged as a load generator's.
    is_load: ClassVar[bool] = True

    @classmethod
    def operations_of(cls, options: Mapping[str, Any]) -> Collection[str]:
        """What `run` records with these options."""
        return cls.operations

    def __init__(self, options: Mapping[str, Any]) -> None:
        #: The job file's `python.options`; raise ValueError when they are wrong.
        self.options = options

    def set_up(self, client: Client) -> None:
        """Called once, before the run starts; not measured."""

    def run(self, client: Client) -> None:
        raise NotImplementedError

    def drain(self, client: Client) -> None:
        """Called once after the last `run`: wait for observations under way. What is
        not over at the end of the run's drain counts as unresolved."""

    def tear_down(self, client: Client) -> None:
        """Called once, after the drain; not measured."""


class Connection(SimpleLDAPObject):  # type: ignore[misc]
    """A python-ldap connection that tells its client of every call into libldap."""

    #: None during set-up and close.
    client: Client | None = None

    def _ldap_call(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        client = self.client
        if client is None:
            return super()._ldap_call(func, *args, **kwargs)
        name = func.__name__
        client._call_begins(_REQUESTS.get(name))
        try:
            result = super()._ldap_call(func, *args, **kwargs)
        except ldap.LDAPError as error:
            client._call_ends(result_code_of(error))
            raise
        client._call_ends(0)
        if name == "result4":
            client._received(*result[:2])
        return result


class Operation:
    """One measured operation, as a context manager: see Client.operation."""

    def __init__(self, client: Client, number: int, expected: frozenset[int]) -> None:
        self._client = client
        self._number = number
        self._expected = expected
        #: The engine's handle; 0 before the block.
        self._handle = 0
        self._begun_ns = 0
        self._sent_ns = 0
        self._received_ns = 0
        #: None: the result code of python-ldap, or success.
        self.result_code: int | None = None
        self._last_code = 0

    @property
    def sent_ns(self) -> int:
        """When its first request was handed to libldap, CLOCK_MONOTONIC; 0 before."""
        return self._sent_ns

    def add(
        self, *, entries: int | None = None, requests: Collection[str] = ()
    ) -> None:
        """Count the entries of a search, 0 included, and requests (bind, search, …)
        that did not go through `client.connection`."""
        for kind in requests:
            self._client.count_request(kind)
        self._client._recorder.update(
            self._handle, 0, len(requests), entries or 0, 0, entries is not None
        )

    def __enter__(self) -> Operation:
        client = self._client
        if client._current is not None:
            raise ClassFault("an operation is begun within another one")
        if not client._in_session:
            raise ClassFault("an operation is begun outside of `run`")
        client._current = self
        self._begun_ns = time.monotonic_ns()
        self._handle = client._recorder.begin(
            self._number,
            client._due_ns,
            client._take_slot_free(),
            self._begun_ns,
            False,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: object,
    ) -> None:
        done_ns = time.monotonic_ns()
        client, self._client._current = self._client, None
        client._due_ns = done_ns
        outcome, code, received_ns, said = UNRESOLVED, 0, done_ns, b""
        if error is None or isinstance(error, ldap.LDAPError):
            code = self._code_after(error)
            said = diagnostic_message_of(error) if error else b""
            outcome = self._outcome_of(code)
            if outcome == EXPECTED:
                client._expected.add((self._number, code))
            if code >= 0:
                received_ns = self._received_ns or done_ns
            client._recorded = error
        client._free_ns += received_ns - (self._sent_ns or self._begun_ns)
        client._recorder.end(self._handle, outcome, code, received_ns, done_ns, said)
        if code < 0:
            if code != TIME_OUT and code not in _LOST:
                raise ClassFault(f"libldap refused a request: its error {code}")
            # as in the engine: nothing more is sent without a response
            client._is_lost = True

    def _code_after(self, error: ldap.LDAPError | None) -> int:
        if self.result_code is not None:
            return self.result_code
        if error is not None:
            return result_code_of(error)
        # a class may handle result codes, but not a missing response
        is_kept = self._last_code in (*PYTHON_SUCCESS_CODES, TIME_OUT, *_LOST)
        return self._last_code if is_kept else 0

    def _outcome_of(self, code: int) -> int:
        if code < 0:
            return TIMED_OUT if code == TIME_OUT else UNRESOLVED
        if code in PYTHON_SUCCESS_CODES:
            return SUCCEEDED
        return EXPECTED if code in self._expected else FAILED

    def _call_begins(self, requests: int) -> None:
        # the class's own time before its first request is send lag
        first_ns = 0 if self._sent_ns else time.monotonic_ns()
        self._sent_ns = self._sent_ns or first_ns
        self._client._recorder.update(self._handle, first_ns, requests, 0, 0, False)

    def _call_ends(self, code: int) -> None:
        self._received_ns = time.monotonic_ns()
        self._last_code = code


class Observation:
    """Something awaited beside `run`: see Client.observe. Any thread may end it,
    once."""

    def __init__(self, recorder: SharedRecorder, operation: int, begun_ns: int) -> None:
        self._recorder = recorder
        self.begun_ns = begun_ns
        self._handle = recorder.begin(operation, begun_ns, 0, begun_ns, True)

    def seen(self, received_ns: int) -> None:
        """It has happened; `received_ns` is when this host had word of it."""
        self._end(SUCCEEDED, received_ns)

    def timed_out(self) -> None:
        self._end(TIMED_OUT)

    def lost(self) -> None:
        """Nobody looks any more."""
        self._end(UNRESOLVED)

    def _end(self, outcome: int, received_ns: int = 0) -> None:
        now_ns = time.monotonic_ns()
        self._recorder.end(self._handle, outcome, 0, received_ns or now_ns, now_ns)


class Client:
    """One virtual client of a stream, as its class sees it."""

    def __init__(
        self,
        *,
        number: int,
        total: int,
        uri: str,
        uris: tuple[str, ...],
        access: ConnectionSettings,
        request_timeout_s: float,
        seed: str,
        operations: Mapping[str, int],
        recorder: SharedRecorder,
        counters: memoryview,
        send_note: Callable[[str, dict[str, Any]], None],
        drain_s: float = 0.0,
        limits: AgentLimits | None = None,
    ) -> None:
        #: Its number in the whole run, and the number of clients.
        self.number = number
        self.total = total
        self.uri = uri
        #: All servers of the stream's role.
        self.uris = uris
        self.access = access
        #: The stream's `request_timeout`; python-ldap has it already.
        self.request_timeout_s = request_timeout_s
        #: The longest wait after the load.
        self.drain_s = drain_s
        #: The limits of the agent's operator.
        self.limits = limits or AgentLimits()
        #: Seeded by the run's seed, the stream and the number.
        self.random = random.Random(seed)
        self._operations = operations
        self._recorder = recorder
        #: Shared with the host: CPU and run-queue time of programs, in ns; then for
        #: each of uris the requests by kind.
        self._counters = counters
        self._send_note = send_note
        self._notes_left = MAX_NOTES
        self._connection: Connection | None = None
        self._stopping = threading.Event()
        self._current: Operation | None = None
        #: When the next operation is due: the arrival, or the end of the last one or of
        #: a pause.
        self._due_ns = 0
        #: In an open loop, since when it would be free if it took no time of its own:
        #: from when a session could begin, its service times and pauses later.
        self._free_ns = 0
        #: That of the arrival's, for its first operation.
        self._slot_free_ns = 0
        #: The recorded failure; any other that leaves `run` is a defect.
        self._recorded: BaseException | None = None
        self._in_session = False
        self._is_lost = False
        #: Operation and result code of the answers that the class expected.
        self._expected: set[tuple[int, int]] = set()

    @property
    def connection(self) -> Connection:
        """The bound python-ldap connection; made again after a loss, before the next
        session."""
        if self._connection is None:
            raise ClassFault("the class has `connects = False`: there is no connection")
        return self._connection

    @property
    def is_stopping(self) -> bool:
        """True: the load is over; `run` should return soon."""
        return self._stopping.is_set()

    def operation(self, name: str, *, expect: Collection[int] = ()) -> Operation:
        """Measure a block: `with client.operation("login"): …`.

        An ldap.LDAPError that leaves the block is recorded by its result code and
        raised again; when it leaves `run`, the session is over. Result codes in
        `expect` are no failures.
        """
        return Operation(self, self._number_of(name), frozenset(expect))

    def sleep(self, duration_s: float) -> None:
        """Pause, as a user thinks. Raises RunStopped, which `run` should not catch,
        when the load ends."""
        duration_ns = round(duration_s * 1e9)
        self._due_ns = time.monotonic_ns() + duration_ns
        self._free_ns += duration_ns
        if self.wait(duration_s):
            raise RunStopped

    def wait(self, duration_s: float) -> bool:
        """Wait within an operation; True: the load ended meanwhile."""
        return self._stopping.wait(duration_s)

    def observe(self, name: str, begun_ns: int) -> Observation:
        """Measure from `begun_ns` (CLOCK_MONOTONIC) until the observation is ended."""
        return Observation(self._recorder, self._number_of(name), begun_ns)

    def count_request(self, kind: str, uri: str | None = None) -> None:
        """Count a request that did not go through `connection`; `uri` is one of
        `uris`."""
        try:
            server, number = self.uris.index(uri or self.uri), REQUEST_KINDS.index(kind)
        except ValueError:
            raise ClassFault(f"there is no request {kind!r} to {uri!r}") from None
        self._counters[2 + server * len(REQUEST_KINDS) + number] += 1

    def count_connection(self, *, failed: bool = False) -> None:
        """Count a connection that is not `connection`, or one that was refused."""
        if failed:
            self._recorder.failed(0)
        else:
            self._recorder.count("connects")

    def note(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Store a note (JSON), which result.json shows below the agent's `notes` of
        this kind. MAX_NOTES a client. ClassFault: too large, too deep, no JSON."""
        try:
            text = json.dumps(facts, ensure_ascii=False, allow_nan=False)
            text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise ClassFault(f"a note that is no JSON: {error}") from None
        if len(text) > MAX_NOTE_CHARACTERS or _depth(facts) > MAX_NOTE_DEPTH:
            raise ClassFault(
                f"a note of {len(text):,} characters, {_depth(facts)} deep; the limits "
                f"are {MAX_NOTE_CHARACTERS:,} and {MAX_NOTE_DEPTH}"
            )
        if self._notes_left > 0:
            self._notes_left -= 1
            self._send_note(kind, parse_json(text))

    def ran_program(self, *, cpu_ns: int, run_queue_ns: int) -> None:
        self._counters[0] += cpu_ns
        self._counters[1] += run_queue_ns

    def _number_of(self, name: str) -> int:
        try:
            return self._operations[name]
        except KeyError:
            names = ", ".join(repr(known) for known in self._operations)
            raise ClassFault(
                f"operation {name!r} is not declared, {names} are"
            ) from None

    def _take_slot_free(self) -> int:
        slot_free_ns, self._slot_free_ns = self._slot_free_ns, 0
        return slot_free_ns

    def _call_begins(self, kind: str | None) -> None:
        if kind is not None:
            self.count_request(kind)
        if self._current is not None:
            self._current._call_begins(int(kind is not None))

    def _call_ends(self, code: int) -> None:
        if self._current is not None:
            self._current._call_ends(code)

    def _received(self, kind: int | None, messages: Any) -> None:
        operation = self._current
        if operation is None or kind not in _ENTRY_KINDS:
            return
        references = sum(1 for message in messages if message[0] is None)
        entries = len(messages) - references
        is_over = kind == ldap.RES_SEARCH_RESULT
        self._recorder.update(operation._handle, 0, 0, entries, references, is_over)


def _depth(value: Any) -> int:
    """Depth of nested lists and mappings; 0 for other values."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return 0
    return 1 + max(map(_depth, value), default=0)
