# SPDX-License-Identifier: Apache-2.0
"""What the benchmark runs: job files, so that it measures what users get.

Every operation is of the kind that a directory sees most: an entry among a million by
its uid, drawn at random, values of twenty characters.
"""

from __future__ import annotations

from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, agent_plan
from ldapslam.jobs.requests.template import Template

BASE = "ou=people,dc=example,dc=com"
FILTER = "(uid=user.[100000-999999])"
ATTRIBUTES = ("cn", "mail")

CLOSED_RUN = "{duration: 2s, warm_up: 500ms, interval: 500ms}"
OPEN_RUN = "{duration: 4s, warm_up: 500ms, interval: 500ms}"

_DN = f'"uid=user.[100000-999999],{BASE}"'
SEARCH = (
    f'{{search: {{base: "{BASE}", scope: sub, filter: "{FILTER}",'
    f" attributes: [{', '.join(ATTRIBUTES)}]}}}}"
)
#: Each as the operations of a stream; with an abandon goes what it abandons. A paged
#: search has one page: the responder gives no cookie.
OPERATIONS = {
    "add": f"""{{let: {{n: "[100000-999999]"}}, add: {{clean_up: false,
        dn: "uid=user.[n],{BASE}",
        entry: {{objectClass: [top, person, inetOrgPerson], uid: "user.[n]",
                cn: "User [n]", sn: User, mail: "user.[n]@example.com"}}}}}}""",
    "modify": f'{{modify: {{dn: {_DN}, replace: {{description: "[random:20]"}}}}}}',
    "increment": f"{{modify: {{dn: {_DN}, increment: {{employeeNumber: 1}}}}}}",
    "delete": f"{{delete: {{dn: {_DN}}}}}",
    "modify_dn": f'{{modify_dn: {{dn: {_DN}, new_rdn: "uid=user.[0-9999]"}}}}',
    "compare": f"{{compare: {{dn: {_DN}, attribute: sn, value: User}}}}",
    "bind": f'{{bind: {{dn: {_DN}, password: "[random:20]"}}}}',
    "sasl_plain_bind": """{bind: {sasl: {mechanism: PLAIN,
        authcid: "user.[100000-999999]", password: "[random:20]"}}}""",
    "paged_search": f"{SEARCH[:-2]}, page_size: 100}}}}",
    "who_am_i": "{extended: {who_am_i: true}}",
    "password_modify": f"""{{extended: {{password_modify: {{user: {_DN}, old: secret,
        new: "[random:20]"}}}}}}""",
    "abandon": f"""{{name: searched, weight: 1, {SEARCH[1:]},
      {{weight: 99, abandon: {{of: searched, after: 0ms}}}}""",
}

_JOB = """
name: engine-cost
targets: {{server: "{uri}"}}
run: {run}
{settings}
streams:
  - name: load
    target: server
    load: {load}
    connection: {{spacing: 10k/s}}  # a listening queue holds some thousands
    operations: [{operations}]
"""


def closed_job(
    uri: str, connections: int, operations: str = SEARCH, settings: str = ""
) -> str:
    load = f"{{clients: {connections}}}"
    return _JOB.format(
        uri=uri, run=CLOSED_RUN, load=load, operations=operations, settings=settings
    )


def open_job(uri: str, rate_per_s: int) -> str:
    load = (
        f"{{rate: {rate_per_s}/s, arrivals: poisson, connections: 16, in_flight: 16}}"
    )
    return _JOB.format(uri=uri, run=OPEN_RUN, load=load, operations=SEARCH, settings="")


def long_job(uri: str, seconds: int) -> str:
    return closed_job(uri, 16).replace("duration: 2s", f"duration: {seconds}s")


def plan_of(job_text: str) -> AgentPlan:
    job = load_job_text(job_text, file="benchmark", base=None)
    return agent_plan(job, 0, 1, seed=1)


def search_template() -> Template:
    """The request that all clients send."""
    return plan_of(closed_job("ldap://127.0.0.1", 1)).streams[0].operations[0].template
