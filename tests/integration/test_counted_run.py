# SPDX-License-Identifier: Apache-2.0
"""A run that ends with its counts: total times, outcomes, and books that balance.

Sessions that log in with a wrong password, which the job expects; a paged search; adds
and deletes that know each other. Two agents against a real slapd.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.command_line import ldapslam
from support.figures import requests_in, value_of
from support.lab import Lab

LOGINS, PAGED_SEARCHES, CHANGES = 300, 10, 300
PAGE, PEOPLE = 100, 1_000
PEOPLE_DN = "ou=people,dc=example,dc=com"

JOB = f"""\
name: counted
targets: {{{{directory: "{{uri}}"}}}}
bind: {{{{dn: "{{dn}}", password: {{{{file: "{{password_file}}"}}}}}}}}
run: {{{{interval: 1s}}}}
streams:
  - name: logins
    target: directory
    count: {LOGINS}
    load: {{{{clients: 8}}}}
    operations:
      - name: login
        sequence:
          - search: {{{{base: "{PEOPLE_DN}", filter: "(uid=user.[0-999])"}}}}
            name: find
            capture: dn
          - bind: {{{{dn: "[dn]", password: wrong}}}}
            expect: [invalidCredentials]
          - unbind: {{{{}}}}
  - name: pages
    target: directory
    count: {PAGED_SEARCHES}
    load: {{{{clients: 2}}}}
    operations:
      - search: {{{{base: "{PEOPLE_DN}", filter: "(uid=user.*)", page_size: {PAGE}}}}}
  - name: churn
    target: directory
    count: {CHANGES}
    load: {{{{clients: 4}}}}
    operations:
      - add:
          dn: "uid=counted.[unique],{PEOPLE_DN}"
          entry: {{{{objectClass: [person, uidObject], cn: c, sn: c}}}}
        weight: 2
      - delete: {{{{of: add}}}}
thresholds: ["churn.*.elapsed < 5m", "logins.login-bind.errors <= 0%"]
"""


#: The result of the run, and what the server counted meanwhile.
Balance = tuple[dict[str, Any], dict[str, int]]


@pytest.fixture(scope="module")
def balance(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Balance:
    folder = tmp_path_factory.mktemp("counted")
    job = folder / "counted.yaml"
    job.write_text(lab.job(JOB))
    before = lab.monitor_counts(lab.supplier)
    ended = ldapslam("run", job, "--agents", "2", "--json", cwd=folder)
    after = lab.monitor_counts(lab.supplier)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout), {
        kind: after[kind] - before[kind] for kind in after
    }


def test_it_ends_when_its_counts_are_reached(balance: Balance) -> None:
    result, _ = balance
    assert result["manifest"]["state"] == "finished"
    rules = {rule["name"]: rule["passed"] for rule in result["rules"]}
    assert rules["counts_reached"]
    assert rules["intervals_complete"]
    assert all(threshold["passed"] for threshold in result["thresholds"])
    times_us = (value_of(result, f"{name}.*.elapsed") for name in result["streams"])
    assert result["measured_s"] == pytest.approx(max(times_us) / 1e6, abs=0.01)
    totals = result["totals"]
    assert totals["logins.find"]["sent"] == LOGINS
    assert totals["pages.search"]["sent"] == PAGED_SEARCHES * PEOPLE / PAGE
    add, delete = totals["churn.add"], totals["churn.delete"]
    assert add["sent"] + delete["sent"] == CHANGES


def test_rejected_binds_are_expected_and_have_times_of_their_own(
    balance: Balance,
) -> None:
    bind = balance[0]["streams"]["logins"]["login-bind"]
    assert (bind["expected"], bind["succeeded"], bind["failed"]) == (LOGINS, 0, 0)
    assert bind["times_of"] == "expected"
    p50 = balance[0]["figures"]["logins.login-bind.response_time.p50"]
    assert p50["sample"] == LOGINS
    assert bind["result_codes"] == {"invalidCredentials": LOGINS}


def test_each_session_had_a_connection_whose_set_up_was_timed(
    balance: Balance,
) -> None:
    logins = balance[0]["connections"]["logins"]
    # one for each session, and one that each client had when the count was reached
    assert logins["connects"] == LOGINS + 8
    assert logins["reconnects"] == LOGINS
    figures = balance[0]["figures"]
    for metric in ("tcp_time", "bind_time"):
        assert figures[f"logins.*.{metric}.max"]["sample"] == logins["connects"]
    assert "logins.*.tls_time.max" not in figures


def test_the_books_balance_kind_by_kind(balance: Balance) -> None:
    result, counted = balance
    (book,) = requests_in(result).values()
    assert {kind: one["sent"] for kind, one in book.items()} == {
        kind: number for kind, number in counted.items() if number
    }
    # what was added was deleted, by the load or by the clean-up
    assert counted["add"] == counted["delete"] == result["totals"]["churn.add"]["sent"]
    agents = result["manifest"]["agents"].values()
    assert [facts["clean_up"]["left"] for facts in agents] == [0, 0]
