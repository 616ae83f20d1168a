# SPDX-License-Identifier: Apache-2.0
"""How to come to a directory, from the options that the one-line commands have too.

They are read as a job's are, so that they mean the same and fail the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ldapslam.agent.ldap_access import LdapAccess
from ldapslam.cli.one_line_options import compose_head
from ldapslam.jobs.plan import agent_plan

#: What a job needs beside its target; nobody sends it.
_STREAM = {
    "name": "access",
    "target": "directory",
    "load": {"closed": {"clients": 1}},
    "operations": [{"search": {"base": "", "scope": "base"}}],
}


def directory_access(uri: str, given: Mapping[str, Any]) -> LdapAccess:
    """What the values of `connection_options` say, with the password. JobErrors and
    ConfigError in the words of the options."""
    if given["realm"] is not None:
        raise click.UsageError("--realm is for load; here the mechanism's own is taken")
    job = compose_head("access", [uri], dict(given), "URI")
    job.put(("run", "duration"), "1s", "")
    job.put(("streams", 0), _STREAM, "")
    stream = agent_plan(job.load(), 0, 1, 0).streams[0]
    password = stream.bind_password
    return LdapAccess(
        start_tls=stream.start_tls,
        ca_file=stream.ca_file,
        cert_file=stream.cert_file,
        key_file=stream.key_file,
        verify=stream.verify,
        bind_dn=stream.bind_dn,
        bind_password=password.resolve() if password else None,
        mechanism=stream.mechanism,
        authcid=stream.authcid,
        authzid=stream.authzid,
        connect_timeout_ns=stream.connect_timeout_ns,
    )
