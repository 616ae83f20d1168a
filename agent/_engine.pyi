# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

#: kind, lo, hi, step, width, data, a, b: see values.h and jobs/requests/template.py
_Value = tuple[int, int, int, int, int, bytes, float, float]

class ConnectError(Exception):
    """A connection could not be set up; args: uri, stage, code, detail."""

    uri: str
    stage: str
    code: int
    detail: str

class Engine:
    def __init__(
        self,
        *,
        seed: int,
        workers: int,
        boundaries_ns: Sequence[int],
        measure_start_ns: int,
        measure_end_ns: int,
        ramp_up_ns: int,
        grace_ns: int,
        realtime: bool = True,
        spin_ns: int = 20000,
        max_pdu_bytes: int = 16777216,
    ) -> None: ...
    def add_stream(
        self,
        name: str,
        *,
        uris: Sequence[str],
        start_tls: bool,
        ca_file: str | None,
        verify: bool,
        bind_dn: str | None,
        bind_password: bytes | None,
        connect_timeout_ns: int,
        request_timeout_ns: int,
        model: str,
        connections: int,
        first_connection: int,
        connection_stride: int,
        total_connections: int,
        in_flight: int,
        think_time_ns: int = 0,
        profile: Sequence[tuple[int, int, float, float, float]] = (),
        arrivals: str = "constant",
        max_backlog: int = 0,
        cert_file: str | None = None,
        key_file: str | None = None,
        mechanism: str | None = None,
        authcid: str | None = None,
        authzid: str | None = None,
        realm: str | None = None,
        total_operations: int = 0,
        start_ns: int = 0,
        end_ns: int = 0,
        reconnect_operations: int = 0,
        reconnect_ns: int = 0,
        connect_spacing_ns: int = 0,
        variables: int = 0,
        ledgers: int = 0,
        ledger_folder: str | None = None,
        trace: str | None = None,
        addresses: Sequence[str] = (),
    ) -> int: ...
    def add_operation(
        self,
        stream: int,
        name: str,
        *,
        response_tag: int,
        program: bytes,
        values: Sequence[_Value],
        success_codes: Sequence[int] = (0,),
        expected_codes: Sequence[int] = (),
        lets: Sequence[tuple[int, bytes, Sequence[_Value]]] = (),
        captures: Sequence[tuple[int, bytes]] = (),
        cookie_variable: int = -1,
        action: str = "request",
        awaits: bool = True,
        sasl: tuple[str, int, int, int, int] | None = None,
        ledger: int = 0,
        ledger_put: int = -1,
        ledger_take: int = -1,
        ledger_order: str = "fifo",
    ) -> int: ...
    def add_script(
        self, stream: int, *, weight: int, steps: Sequence[tuple[int, int]]
    ) -> int: ...
    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

class Histogram:
    """The engine's histogram, for what is measured in Python."""

    def record_ns(self, value_ns: int) -> None: ...
    def pack(self) -> bytes:
        """The packed histogram; empties it."""

class Responder:
    port: int
    uri: str
    def __init__(
        self,
        *,
        socket_path: str | None = None,
        delays: Sequence[tuple[int, int]] = (),
        seed: int = 0,
        record_capacity: int = 0,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def record(self) -> list[int]:
        """Service times, in the order of the answers, in ns."""
    def arrivals(self) -> list[int]:
        """When those requests were received: ns of CLOCK_MONOTONIC."""
    def counts(self) -> dict[str, int]: ...

class Ldif:
    """A population's entries, written by threads: see ldif.h and
    jobs/entries/population_program.py."""

    entries: int
    def __init__(
        self,
        *,
        seed: int,
        nodes: Sequence[tuple[int, int, int, int, int, bytes]],
        values: Sequence[_Value],
        first_names: int,
        last_names: int,
        threads: int,
        fds: Sequence[int],
    ) -> None: ...
    def start(self) -> None: ...
    def wait(self, timeout_ns: int) -> bool:
        """Whether everything is written, or it was stopped."""
    def progress(self) -> tuple[int, int]:
        """Entries and bytes of LDIF written so far."""
    def stop(self) -> None: ...
    def close(self) -> None: ...
