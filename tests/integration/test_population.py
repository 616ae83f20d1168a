# SPDX-License-Identifier: Apache-2.0
"""A population's record of a real directory: runs on it, and on what is another."""

from __future__ import annotations

import json
from pathlib import Path

from support.busy_host import VALIDITY
from support.command_line import check_ldapslam, ldapslam
from support.figures import requests_in
from support.lab import Lab

JOB = (
    VALIDITY
    + """\
name: lookups
targets: {{directory: "{uri}"}}
bind: {{dn: "{dn}", password: {{file: "{password_file}"}}}}
population: {{file: people.population}}
run: {{duration: 1s}}
streams:
  - name: s
    target: directory
    load: {{clients: 2, think_time: 10ms}}
    operations: [{{search: {{base: "dc=example,dc=com", scope: base}}}}]
"""
)


def test_a_run_is_for_the_population_that_it_names(lab: Lab, tmp_path: Path) -> None:
    uri, record = lab.supplier.uri, tmp_path / "people.population"
    access: list[str | Path] = ["-D", lab.admin_dn, "-y", lab.admin_password_file]
    of_server: list[str | Path] = [
        "data",
        "verify",
        uri,
        "-b",
        lab.people_dn,
        *access,
        "--json",
    ]
    saved = check_ldapslam(*of_server, "--save", record, "--sample", "40")
    fingerprint = json.loads(saved.stdout)["fingerprint"]

    job = tmp_path / "job.yaml"
    job.write_text(lab.job(JOB))
    checked = ldapslam("check", job)
    assert "all 40 sampled entries are there" in checked.stdout
    before = lab.monitor_counts(lab.supplier)
    done = check_ldapslam("run", job, "--agents", "2", "--json")
    after = lab.monitor_counts(lab.supplier)
    result = json.loads(done.stdout)
    assert result["manifest"]["population"] == {
        "base": lab.people_dn,
        "fingerprint": fingerprint["sha256"],
        "entries": fingerprint["entries"],
        "sampled": 40,
        "servers": [uri],
    }
    # what was looked for is in the books
    searches = after["search"] - before["search"]
    assert requests_in(result)[uri]["search"]["sent"] == searches

    document = json.loads(record.read_text())
    dn = next(iter(document["sample"]))
    document["sample"][dn] = "00" * 16
    document["sample"][f"uid=nobody,{lab.people_dn}"] = "00" * 16
    record.write_text(json.dumps(document))
    for command in ("check", "run"):
        refused = ldapslam(command, job)
        assert refused.returncode == 6
        assert "41 entries that were looked for, 1 are missing and 1 are others" in (
            refused.stderr
        )
        assert dn in refused.stderr
