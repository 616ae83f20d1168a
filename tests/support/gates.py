# SPDX-License-Identifier: Apache-2.0
"""The job of gates that tests make: short runs, whatever the machine does meanwhile."""

GATE_JOB = """\
name: gate
targets: {server: "ldap://127.0.0.1:1"}
run: {duration: 500ms, interval: 100ms, drain: 1s}
validity: {send_lag_p99: 100ms, stall: 2s, loop_share: 100%, run_queue_share: 100%,
           busy_share: 100%, disturbed_intervals: 100%}
streams:
  - name: readers
    target: server
    load: {clients: 4}
    operations: [{search: {base: "ou=people,dc=example,dc=com",
                           filter: "(uid=user.[0-9])"}}]
"""
