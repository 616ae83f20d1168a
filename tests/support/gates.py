# SPDX-License-Identifier: Apache-2.0
"""The job of gates that tests make: short runs, whatever the machine does meanwhile."""

from support.busy_host import VALIDITY

GATE_JOB = (
    VALIDITY
    + """\
name: gate
targets: {server: "ldap://127.0.0.1:1"}
run: {duration: 500ms, interval: 100ms, drain: 1s}
streams:
  - name: readers
    target: server
    load: {clients: 4}
    operations: [{search: {base: "ou=people,dc=example,dc=com",
                           filter: "(uid=user.[0-9])"}}]
"""
)
