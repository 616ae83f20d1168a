# SPDX-License-Identifier: Apache-2.0
"""Below which naming contexts a marker entry must stand, for which job."""

from __future__ import annotations

import pytest

from ldapslam.base.errors import ConfigError, TargetMarkerMissing
from ldapslam.directory.marker import Marker, parse_marker, touched_contexts
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job

URI = "ldap://127.0.0.1:1389"
CONTEXTS = ["dc=example,dc=com", "ou=Branch,dc=example,dc=com", "o=Other"]

JOB = """\
job: marked
targets: {{s: "ldap://127.0.0.1:1389", t: "ldap://127.0.0.1:2389"}}
run: {{duration: 1s}}
agents: {{count: 1}}
streams:
  - name: one
    target: s
    {content}
"""


def job(content: str) -> Job:
    return load_job_text(JOB.format(content=content), file="job", base=None)


def operations(*texts: str) -> Job:
    return job(f"load: {{clients: 1}}\n    operations: [{', '.join(texts)}]")


def search(base: str, scope: str = "sub") -> str:
    return f'{{search: {{base: "{base}", scope: {scope}}}}}'


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (search("dc=example,dc=com"), ["dc=example,dc=com"]),
        (search("OU=People, DC=Example ,dc=com"), ["dc=example,dc=com"]),
        (search("uid=user.[0-9],ou=people,dc=example,dc=com"), ["dc=example,dc=com"]),
        # the innermost of two that it lies in
        (search("cn=a,ou=branch,dc=example,dc=com"), ["ou=Branch,dc=example,dc=com"]),
        (search("o=other"), ["o=Other"]),
        # not known before the run, or above all of them: every one
        (search("[file:dns.txt]"), CONTEXTS),
        (search("dc=com"), CONTEXTS),
        (search(""), CONTEXTS),
        (search("o=another"), CONTEXTS),
        # the root DSE is in none
        (search("", "base"), []),
        (
            '{modify: {dn: "uid=[0-9],o=other", replace: {description: x}}}',
            ["o=Other"],
        ),
        ("{extended: {oid: 1.3.6.1.4.1.4203.1.11.3}}", CONTEXTS),
        (
            '{modify_dn: {dn: "cn=a,o=other", new_rdn: "cn=b", '
            'new_superior: "dc=example,dc=com"}}',
            ["o=Other", "dc=example,dc=com"],
        ),
    ],
)
def test_a_job_touches_what_its_requests_name(
    operation: str, expected: list[str]
) -> None:
    assert touched_contexts(operations(operation), URI, CONTEXTS) == expected


def test_a_session_touches_what_each_of_its_requests_names() -> None:
    session = operations(
        '{sequence: [{search: {base: "o=other"}, name: a, capture: dn}, '
        '{compare: {dn: "[dn]", attribute: cn, value: x}, name: b}]}'
    )
    # where the entry that was found lies is not known
    assert set(touched_contexts(session, URI, CONTEXTS) or ()) == set(CONTEXTS)


def test_streams_that_only_wait_touch_nothing() -> None:
    waiting = job("type: wait_for_directory\n    options: {limit: 5s}")
    assert touched_contexts(waiting, URI, CONTEXTS) == []


def test_servers_of_other_streams_are_not_touched() -> None:
    assert touched_contexts(operations(search("o=other")), "ldap://x", CONTEXTS) == []


def test_the_marker_stands_below_each_touched_context() -> None:
    marker = Marker("cn=allowed", operations(search("o=other")))
    assert list(marker.entries(URI, CONTEXTS)) == ["cn=allowed,o=Other"]


def test_a_server_that_hides_its_contexts_is_refused() -> None:
    marker = Marker("cn=allowed", operations(search("o=other")))
    with pytest.raises(TargetMarkerMissing, match="does not tell its naming contexts"):
        list(marker.entries(URI, []))


@pytest.mark.parametrize("text", ["", "allowed", "cn=a,dc=b", "cn=a,"])
def test_a_marker_is_one_rdn(text: str) -> None:
    with pytest.raises(ConfigError, match="require-marker"):
        parse_marker(text)


def test_an_rdn_of_several_values_is_one_too() -> None:
    assert parse_marker("cn=a+ou=b") == "cn=a+ou=b"
