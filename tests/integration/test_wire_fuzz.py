# SPDX-License-Identifier: Apache-2.0
"""Messages that nobody should send: the coordinator refuses them and goes on.

It is a process of its own with everything that it serves, a run is under way, and an
agent's session is open, so that whatever passes the first check goes further. Every
call must be answered, and none by a defect: what went wrong in the coordinator itself
says so in its refusal.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import sqlite3
from collections import Counter
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import MethodDescriptor

from ldapslam import __version__
from ldapslam.proto import operator_pb2
from ldapslam.proto.agent_pb2_grpc import AgentServiceStub
from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub
from ldapslam.results.store import Store
from ldapslam.transport.codec import CHANNEL_OPTIONS, FAILURE_KEY
from ldapslam.transport.credentials import trusting_channel
from ldapslam.transport.messages import PROTOCOL_VERSION
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role, build_request, new_key
from support.command_line import Running
from support.fleet import job_text, registration, submission
from support.intervals import stored_intervals
from support.message_fuzz import MessageFuzzer
from support.secure_coordinator import ENROL, SecureCoordinator, methods, path_of

_CALL_TIMEOUT_S = 20.0
#: A stream that has nothing to say is left after this.
_STREAM_TIMEOUT_S = 0.02
_AT_A_TIME = 16
#: Aliases that would make a thousand million scalars of nine lines.
_BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join(f'*a{n - 1}' for _ in range(10))}]\n" for n in range(1, 9)
)


class Fuzzed:
    """A coordinator, and what it answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = f"unix:{folder}/coordinator"
        self.store = folder / "results.sqlite"
        authority = Authority.create(folder / "pki", "fleet")
        authority.issue("coordinator", Role.COORDINATOR, ["localhost"])
        self.answers: Counter[str] = Counter()
        self.defects: Counter[str] = Counter()

    def coordinator(self, name: str) -> Running:
        running = Running(
            *("coordinator", "--listen", self.address, "--store", self.store),
            *("--pki", "pki", "--enrol-listen", "127.0.0.1:0"),
            cwd=self.folder,
            name=name,
        )
        running.wait_for_text("coordinator on ")
        return running

    def prepare(self) -> list[str]:
        """An agent with a run; the ids of all that is there."""
        with grpc.insecure_channel(self.address, CHANNEL_OPTIONS) as channel:
            agents = AgentServiceStub(channel)  # type: ignore[no-untyped-call]
            operators = OperatorServiceStub(channel)  # type: ignore[no-untyped-call]
            session = agents.Register(registration("a")).session_id
            job = submission(job_text(duration="10m"))
            run_ids = [operators.SubmitJob(job).run_id]
            job.wait_for_agents_ns = 3600 * 10**9
            run_ids.append(operators.SubmitJob(job).run_id)
        return [session, *run_ids]

    def prepare_again(self) -> None:
        """A job is taken, seen and cancelled."""
        with grpc.insecure_channel(self.address, CHANNEL_OPTIONS) as channel:
            operators = OperatorServiceStub(channel)  # type: ignore[no-untyped-call]
            text = job_text(uri="ldap://127.0.0.1:2")
            job = submission(text, wait_for_agents_ns=3600 * 10**9)
            run_id = operators.SubmitJob(job).run_id
            newest = operators.ListRuns(operator_pb2.ListRunsRequest(limit=1)).runs
            assert [run.run_id for run in newest] == [run_id]
            end = operator_pb2.CancelRunRequest(run_id=run_id, cancelled_by="test")
            operators.CancelRun(end)
            asked = operator_pb2.GetRunRequest(run_id=run_id)
            assert operators.GetRun(asked).state in ("cancelled", "draining")

    async def send(self, count: int, seed: int, ids: list[str]) -> None:
        session, *run_ids = ids
        likely: dict[str, list[object]] = {
            "protocol_version": [PROTOCOL_VERSION],
            "build": [__version__],
            "session_id": [session],
            "run_id": [*run_ids, run_ids[0], "latest"],
            "after_run": [*run_ids],
            "agent": ["a"],
            "name": ["a", "nightly", "freeze"],
            "schedule": ["nightly"],
            "window": ["freeze"],
            "stream": ["readers"],
            "operation": ["search"],
            "phase": ["measure"],
            "host_facts_json": ["{}"],
        }
        jobs = [job_text(), job_text(run={"duration": "1h"}), _BOMB, "name: x\n"]
        contents = [job.encode() for job in jobs]
        fuzzer = MessageFuzzer(seed, likely, contents)
        chosen = random.Random(seed)
        every = methods()
        todo = iter(range(count))
        async with grpc.aio.insecure_channel(
            self.address, options=list(CHANNEL_OPTIONS)
        ) as channel:

            async def worker() -> None:
                for _ in todo:
                    method = chosen.choice(every)
                    await self._send(channel, method, fuzzer)

            await asyncio.gather(*(worker() for _ in range(_AT_A_TIME)))

    async def _send(
        self, channel: grpc.aio.Channel, method: MethodDescriptor, fuzzer: MessageFuzzer
    ) -> None:
        content = fuzzer.request(method.input_type)
        try:
            if method.server_streaming:
                stream = channel.unary_stream(path_of(method))(
                    content, timeout=_STREAM_TIMEOUT_S
                )
                async for _ in stream:
                    pass
            else:
                await channel.unary_unary(path_of(method))(
                    content, timeout=_CALL_TIMEOUT_S
                )
        except grpc.aio.AioRpcError as error:
            self._note(method, error)
        else:
            self.answers["OK"] += 1

    def _note(self, method: MethodDescriptor, error: grpc.aio.AioRpcError) -> None:
        code = error.code()
        self.answers[code.name] += 1
        text = f"{method.name}: {code.name}: {error.details()}"
        is_ours = any(key == FAILURE_KEY for key, _ in error.trailing_metadata() or ())
        if method.containing_service.full_name == "grpc.health.v1.Health":
            is_ours = is_ours or code is grpc.StatusCode.NOT_FOUND
        is_late = code is grpc.StatusCode.DEADLINE_EXCEEDED
        if is_late and method.server_streaming:
            return
        if "the coordinator failed" in text or not is_ours:
            self.defects[text[:300]] += 1

    def check_store(self) -> int:
        """Number of its runs; each can be read as a whole."""
        with sqlite3.connect(self.store) as connection:
            [[verdict]] = connection.execute("PRAGMA integrity_check").fetchall()
            assert verdict == "ok"
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        connection.close()
        with Store.open(str(self.store), read_only=True) as store:
            records = store.runs()
            for record in records[:50]:
                # queued as the coordinator ended: the next one goes on from there
                assert store.events(record.run_id) or record.state == "queued"
                stored_intervals(store, record.run_id)
                for _ in store.export_run(record.run_id):
                    pass
        return len(records)


@pytest.fixture
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Fuzzed:
    return Fuzzed(tmp_path_factory.mktemp("fuzz"))


def fuzz(fuzzed: Fuzzed, count: int, seed: int) -> None:
    with fuzzed.coordinator("first") as running:
        ids = fuzzed.prepare()
        asyncio.run(fuzzed.send(count, seed, ids))
        assert running.process.poll() is None, running.stderr[-3000:]
        assert not fuzzed.defects, json.dumps(fuzzed.defects.most_common(20), indent=1)
        assert fuzzed.answers.total() == count
        # more than refusals, or the messages would have tested little
        assert fuzzed.answers["OK"] > count // 100, fuzzed.answers
        # it serves as before
        fuzzed.prepare_again()
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0, running.stderr[-3000:]
    runs = fuzzed.check_store()
    assert runs >= 3
    # and what it kept does not keep the next one from starting
    with fuzzed.coordinator("second") as running:
        fuzzed.prepare_again()
        running.process.send_signal(signal.SIGTERM)
        assert running.wait() == 0, running.stderr[-3000:]
    assert fuzzed.check_store() > runs


@pytest.mark.long
def test_messages_that_nobody_should_send_are_refused(fuzzed: Fuzzed) -> None:
    fuzz(fuzzed, 100_000, seed=2)


# Strangers, who have no certificate.


@pytest.mark.parametrize(
    ("count", "seed"), [(1_000, 1), pytest.param(30_000, 2, marks=pytest.mark.long)]
)
def test_strangers_get_certificates_for_tokens_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, seed: int
) -> None:
    made = SecureCoordinator(tmp_path)
    authority = made.authority
    tokens = [
        authority.token(f"a{n}", Role.AGENT, timedelta(hours=1)) for n in range(5)
    ]
    proofs = [token.proof for token in tokens]
    request_pem = build_request(new_key(), "a0")
    likely = {"token": [*proofs, *proofs, tokens[0].token_id, "x.y"]}
    fuzzer = MessageFuzzer(seed, likely, [request_pem, request_pem])
    granted, defects = 0, Counter[str]()
    with (
        made.served(),
        trusting_channel(made.enrolment_address, authority.authority_pem) as channel,
    ):
        enrol = channel.unary_unary(path_of(ENROL))
        for _ in range(count):
            content = fuzzer.request(ENROL.input_type)
            try:
                enrol(content, timeout=_CALL_TIMEOUT_S)
            except grpc.RpcError as error:
                keys = [key for key, _ in error.trailing_metadata()]
                is_too_long = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                if not is_too_long and FAILURE_KEY not in keys:
                    defects[f"{error.code()}: {error.details()}"[:300]] += 1
            else:
                granted += 1
                assert any(proof.encode() in content for proof in proofs)
    assert not defects, defects
    assert 0 < granted <= len(proofs)
    # nor can they fill the log
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
