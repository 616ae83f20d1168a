# SPDX-License-Identifier: Apache-2.0
"""An error of each class that the product raises."""

from __future__ import annotations

from ldapslam.base import errors

FAULT = errors.JobError(
    "expected x", file="a.yaml", line=3, column=5, path="run", hint="y"
)
SAMPLES: list[errors.LdapSlamError] = [
    errors.LdapSlamError("boom", hint="duck"),
    FAULT,
    errors.JobErrors([FAULT, errors.JobError("cannot be read", file="b.yaml")]),
    errors.ConfigError("no such setting", hint="see --help"),
    errors.ConfigErrors(
        [errors.ConfigError("t:3: no"), errors.ConfigError("t:5: nor that", hint="y")]
    ),
    errors.FleetError("busy"),
    errors.AccessRefused("the certificate was revoked", hint="get another"),
    errors.CoordinatorUnreachable("127.0.0.1:7400", "connection refused"),
    errors.AgentUnreachable("a1", 5.0),
    errors.AgentLost("a1", 5.25),
    errors.AgentVersionMismatch("a1", "0.1.0", "0.2.0"),
    errors.NotEnoughAgents("3 agents", ["a1", "a2"]),
    errors.NotEnoughAgents("3 agents", ["a1"], ["a2 takes only jobs that name it"]),
    errors.AgentLimitExceeded("a1", "9 connections", "4", "max-connections"),
    errors.NotGranted("a1", "read the secret {env: A}", "allow-secret", "env:A"),
    errors.NotAsJudged("run r is not what was judged", hint="trust it not"),
    errors.TargetError("cannot be used"),
    errors.TargetUnreachable("ldap://x", "connection refused"),
    errors.BindRejected("ldap://x", "cn=\u00e4", 49, "no", hint="try again"),
    errors.TlsHandshakeFailed("ldaps://x", "certificate expired"),
    errors.TargetNotAllowed("ldap://x", "a1"),
    errors.TargetNotAllowed("ldap://x", "a1", "it is elsewhere", hint="allow it"),
    errors.PopulationMismatch("ldap://x", "9 entries, expected 10"),
    errors.RunError("failed"),
    errors.RunAborted("cancelled"),
    errors.StoreError("disk full"),
    errors.NoStore("store 'x' does not exist"),
    errors.RunNotFound("r1"),
    errors.AmbiguousRun("r", ["r1", "r2"]),
    errors.OtherSchema("sqlite:///x", 9, 3),
    errors.StoreBusy("sqlite:///x", 10.0),
    errors.StoreRefused("no such column"),
    errors.StoreTaken("postgresql://x", "process 7 on host b"),
    errors.StoreFull("sqlite:///x", "disk is full"),
    errors.ReportError("no font"),
    errors.EngineError("snapshot 5 is missing"),
]
