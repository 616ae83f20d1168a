# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Any

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
        think_time_ns: int,
        rate_events: int,
        rate_per_ns: int,
        poisson: bool,
        participant: int,
        participants: int,
        max_backlog: int,
    ) -> int: ...
    def add_operation(
        self,
        stream: int,
        name: str,
        *,
        response_tag: int,
        weight: int,
        program: bytes,
        values: Sequence[tuple[int, int, int, int, int, bytes]],
    ) -> int: ...
    def prepare(self) -> None: ...
    def start(self, t0_mono_ns: int) -> None: ...
    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None: ...
    def stop(self) -> None: ...
    def facts(self) -> dict[str, Any]: ...
    def close(self) -> None: ...

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
    def record(self) -> list[int]: ...
    def counts(self) -> dict[str, int]: ...
