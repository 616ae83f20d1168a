# SPDX-License-Identifier: Apache-2.0
"""The client that a Python class is given, without its process and its connection, and
a class that passes time."""

from __future__ import annotations

from ldapslam.agent._engine import SharedRecorder
from ldapslam.agent.python_jobs.job import REQUEST_KINDS, Client, PythonJob
from ldapslam.jobs.connection_settings import ConnectionSettings

NOBODY = ConnectionSettings(connect_timeout_ns=10**9)


def client_of(
    recorder: SharedRecorder, notes: list[tuple[str, object]] | None = None
) -> Client:
    client = Client(
        number=0,
        total=1,
        uri="ldap://ds1",
        uris=("ldap://ds1",),
        access=NOBODY,
        request_timeout_s=1.0,
        seed="1",
        operations={"find": 0, "search": 1},
        recorder=recorder,
        counters=memoryview(bytearray(8 * (2 + len(REQUEST_KINDS)))).cast("Q"),
        send_note=lambda *note: None if notes is None else notes.append(note),
    )
    client._in_session = True
    return client


class Busy(PythonJob):
    """The directory takes 12 ms, the class 20 ms of its own, as `pass_by` does, a
    function of ns; then a pause."""

    operations = ("find",)

    def run(self, client: Client) -> None:
        pass_by = self.options["pass_by"]
        with client.operation("find"):
            client._call_begins("search")
            pass_by(12_000_000)
            client._call_ends(0)
            pass_by(15_000_000)
        pass_by(5_000_000)
        client.sleep(self.options["pause_s"])
