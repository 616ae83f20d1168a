# SPDX-License-Identifier: Apache-2.0
"""What `check` sends in place of a run: a few requests, and no write."""

from __future__ import annotations

import pytest

from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.requests.template import PARENT
from ldapslam.jobs.sampling import LIMIT_NS, sample_plans

NO_SUCH_ATTRIBUTE = 16
EACH = 7
JOB = """\
name: all
targets: {supplier: ldap://a, replica: [ldap://b, ldap://c, ldap://d]}
run: {duration: 1h, ramp_up: 1m}
streams:
  - name: readers
    target: replica
    start_after: 5s
    load: {rate: 1000/s, connections: 64}
    operations:
      - {weight: 9, search: {base: dc=com}}
      - sequence:
          - {name: first, search: {base: dc=com}, repeat: 500, capture: dn}
          - think: 5s
          - {name: second, compare: {dn: "[dn]", attribute: cn, value: a}}
  - name: writers
    target: supplier
    load: {clients: 4, think_time: 1s}
    count: 100000
    operations: OPERATIONS
"""


def plans(operations: str) -> list[AgentPlan]:
    text = JOB.replace("OPERATIONS", operations)
    job = load_job_text(text, file="all.yaml", base=None)
    return list(sample_plans(job, EACH, unusable=["ldap://c"]))


def writers(operations: str) -> tuple[StreamPlan, ...]:
    return plans(operations)[1].streams


def sent(streams: tuple[StreamPlan, ...]) -> list[tuple[str, bool]]:
    """Names of what sessions send, in order, and whether each is a rehearsal."""
    return [
        (stream.operations[number].name, stream.operations[number].is_rehearsal)
        for stream in streams
        for script in stream.scripts
        for number, _ in script.steps
    ]


def test_each_kind_of_session_is_sent_by_one_connection_to_each_server() -> None:
    plan, _ = plans("[{search: {base: dc=com}}]")
    assert {stream.name for stream in plan.streams} == {"readers"}
    assert plan.boundaries_ns == (LIMIT_NS,)
    for stream in plan.streams:
        assert (stream.model, stream.connections) == ("closed", 1)
        assert stream.total_operations == EACH
        assert (stream.start_ns, stream.think_time_ns, stream.profile) == (0, 0, ())
    search, sequence = ((0, 0),), ((1, 0), (2, 0))  # neither pauses nor repeats
    assert [
        (stream.uris, script.steps)
        for stream in plan.streams
        for script in stream.scripts
    ] == [
        (("ldap://b",), search),
        (("ldap://d",), search),
        (("ldap://b",), sequence),
        (("ldap://d",), sequence),
    ]


DN = 'dn: "uid=user.[0-9],dc=com"'
ADD = '{add: {dn: "uid=new.[unique],ou=new,dc=com", entry: {objectClass: device}}}'
MODIFY = f"{{modify: {{{DN}, replace: {{sn: a, cn: b}}, add: {{sn: c}}}}}}"


@pytest.mark.parametrize(
    ("operation", "attributes"),
    [
        (MODIFY, [b"sn", b"cn"]),
        (f"{{delete: {{{DN}}}}}", [b"description"]),
        (f"{{modify_dn: {{{DN}, new_rdn: uid=x}}}}", [b"description"]),
        (ADD, [b"description"]),
    ],
    ids=["modify", "delete", "modify_dn", "add"],
)
def test_a_rehearsal_deletes_values_that_no_entry_has(
    operation: str, attributes: list[bytes]
) -> None:
    (stream,) = writers(f"[{operation}]")
    (one,) = stream.operations
    assert one.is_rehearsal
    assert (one.response_tag, one.success_codes) == (0x67, (NO_SUCH_ATTRIBUTE,))
    program = one.template.program
    assert (b"uid=user." in program) == (operation != ADD)
    for attribute in attributes:
        assert program.count(attribute) == 1
    # each change is a delete (1) of one drawn value
    assert program.count(b"\x0a\x01\x01") == len(attributes)
    assert program.count(b"ldapslam-check-") == len(attributes)
    assert stream.ledgers == 0
    if operation == ADD:
        parent = one.template.values[0]
        assert (parent.kind, parent.lo) == (PARENT, one.lets[-1].variable)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        # nothing follows what later steps need done
        (
            f"[{{sequence: [{MODIFY}, {ADD}, {{search: {{base: dc=com}}}}]}}]",
            [("modify", True), ("add", True)],
        ),
        # what the stream adds is there only when it is sent
        (f"[{ADD}, {{delete: {{of: add}}}}]", [("add", True)]),
        (
            "[{extended: {password_modify: {new: a}}}, {extended: {who_am_i: true}, "
            "name: who}]",
            [("who", False)],
        ),
    ],
)
def test_what_is_sent(operations: str, expected: list[tuple[str, bool]]) -> None:
    assert sent(writers(operations)) == expected


def test_controls_that_say_whose_entry_it_is_stay() -> None:
    controls = (
        "controls: [permissive_modify, manage_dsa_it, "
        "{proxied_authorization: 'dn:cn=a'}, {assertion: '(cn=a)'}]"
    )
    (stream,) = writers(f"[{MODIFY[:-1]}, {controls}}}]")
    program = stream.operations[0].template.program
    kept = {b"2.16.840.1.113730.3.4.2": 1, b"2.16.840.1.113730.3.4.18": 1}
    left = {b"1.2.840.113556.1.4.1413": 0, b"1.3.6.1.1.12": 0}
    assert {oid: program.count(oid) for oid in kept | left} == kept | left


@pytest.mark.parametrize(
    "operation",
    [
        "{modify: {dn: cn=config, replace: {nsslapd-localhost: a}}}",
        '{modify: {dn: "cn=a,CN = Config", delete: {cn: []}}}',
        '{delete: {dn: "cn=[0-9],cn=tasks,cn=config"}}',
        '{modify_dn: {dn: "cn=a,cn=monitor", new_rdn: cn=b}}',
        '{add: {dn: "cn=[unique],cn=tasks,cn=config", entry: {objectClass: top}}}',
    ],
)
def test_writes_to_the_server_itself_are_not_rehearsed(operation: str) -> None:
    """389-DS sets an attribute of cn=config to a value that is to be deleted."""
    (plan,) = plans(f"[{operation}]")
    assert plan.streams[0].name == "readers"


def test_a_drawn_entry_may_be_the_servers() -> None:
    found = "{search: {base: cn=config, scope: base}, capture: dn}"
    modify = '{modify: {dn: "[dn]", replace: {nsslapd-localhost: a}}}'
    (stream,) = writers(f"[{{sequence: [{found}, {modify}]}}]")
    program = stream.operations[1].template.program
    assert b"nsslapd-localhost" not in program
    assert b"description" in program


def test_a_stream_that_can_send_nothing_has_no_plan() -> None:
    (plan,) = plans("[{extended: {oid: 1.2.3}}]")
    assert plan.streams[0].name == "readers"
