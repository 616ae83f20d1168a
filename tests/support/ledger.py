# SPDX-License-Identifier: Apache-2.0
"""Ledgers as the engine writes them, made by hand."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

from ldapslam.agent.ledgers.folder import SEGMENT_BYTES, State
from ldapslam.base.secrets import SecretRef
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings


def ledger_bytes(records: Iterable[tuple[State, str]]) -> bytes:
    """A ledger of one segment after the other, each filled as far as records go."""
    content = bytearray(b"SLL1\0\0\0\0")
    for state, dn in records:
        raw = dn.encode()
        record = struct.pack("=B3xI", state, len(raw)) + raw
        record += bytes(-len(record) % 8)
        free = SEGMENT_BYTES - len(content) % SEGMENT_BYTES
        if len(record) > free:
            content += bytes(free)
        content += record
    return bytes(content + bytes(-len(content) % SEGMENT_BYTES))


def write_clean_up_plan(
    folder: Path,
    uris: Sequence[str],
    *,
    bind_dn: str | None = None,
    password_file: Path | None = None,
    begun_s: float = 0.0,
    ledgers: Sequence[bool] = (True,),
) -> None:
    """The plan of one stream beside its ledgers."""
    folder.mkdir(parents=True, exist_ok=True)
    password = SecretRef(file=str(password_file)) if password_file else None
    connection = ConnectionSettings(
        bind=BindSettings(bind_dn, password), connect_timeout_ns=5_000_000_000
    )
    stream = {
        "name": "writers",
        "uris": list(uris),
        "ledgers": list(ledgers),
        "connection": dataclasses.asdict(connection),
    }
    content = {
        "format": "ldapslam.clean_up/2",
        "run_id": folder.name,
        "begun_s": begun_s,
        "streams": [stream],
    }
    (folder / "clean-up.json").write_text(json.dumps(content))
