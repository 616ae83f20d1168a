# SPDX-License-Identifier: Apache-2.0
"""What a gate has asked of which servers, as a reader has to know it who was not there:
the lines of a run's report, once where both sides agree. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ldapslam.reports.model import Summary
from ldapslam.reports.sections.facts import facts
from ldapslam.reports.typeset import number_of
from ldapslam.results.facts import Said
from ldapslam.studies.baseline import Baseline
from ldapslam.studies.gate import NEW, OLD

#: Name -> text, of a run.
About = Mapping[str, str]

#: Lines of a run's report that are the same for all runs of a side -> their names here.
_OF_EACH_RUN = {
    "Load": "Load",
    "Requests": "Requests",
    "Connections": "Connections",
    "Measured": "Each run",
}
_SERVER, _HOST, _VERSION = "server", "Host", "ldapslam"
_SETTING = "settings · "
#: Of how a baseline was made.
_VERSIONS = (" · version", " · vendor version", " · monitor version")


def about_run(summary: Summary) -> About:
    """Return the facts of a run that the gate's report shows."""
    of_report, manifest = dict(facts(summary)), summary.run.manifest
    hosts = (facts.host for facts in summary.facts.values())
    return {
        **{
            name: of_report[title]
            for title, name in _OF_EACH_RUN.items()
            if title in of_report
        },
        _SERVER: _lab(manifest.lab) if manifest.lab else of_report["System"],
        _HOST: "; ".join(dict.fromkeys(_host(one) for one in hosts if one)),
        _VERSION: manifest.ldapslam,
    }


def _lab(known: Mapping[str, str]) -> str:
    """Such as `lab of slapd 2.6.8 (mdb), 1 000 people, threads=8`."""
    replicas = int(known.get("replicas", 0))
    return ", ".join(
        [
            f"lab of {known['server']} {known['version']} ({known['backend']})",
            f"{int(known['entries']):,} people",
            *([number_of(replicas, "replica")] if replicas else []),
            *(
                f"{key.removeprefix(_SETTING)}={value}"
                for key, value in known.items()
                if key.startswith(_SETTING)
            ),
        ]
    )


def _host(of: Said) -> str:
    known = (of.get("host_name"), f"{of.get('cores')} cores", of.get("cpu_model"))
    return ", ".join(str(one) for one in known if one)


def gate_facts(
    sides: Mapping[str, str], about: Mapping[str, About], baseline: Baseline | None
) -> Iterator[tuple[str, str]]:
    """The lines of both sides."""
    if baseline is None:
        yield "Old", _side(sides.get(OLD, ""), about.get(OLD, {}))
    else:
        yield "Old", _baseline(baseline)
    yield "New", _side(sides[NEW], about.get(NEW, {}))
    for name in dict.fromkeys(name for of in about.values() for name in of):
        texts = {side: of.get(name, "") for side, of in about.items()}
        if name == _SERVER:
            continue
        if len(set(texts.values())) == 1:
            yield name, next(iter(texts.values()))
        else:
            yield from ((f"{name}, {side}", text) for side, text in texts.items())


def _side(changes: str, about: About) -> str:
    """What the command line has it to be, and its server."""
    server = about.get(_SERVER, "")
    is_told = changes and changes in server
    return "; ".join(filter(None, ("" if is_told else changes, server))) or (
        "the job as it is"
    )


def _baseline(of: Baseline) -> str:
    versions = dict.fromkeys(
        text for name, text in of.facts.items() if text and name.endswith(_VERSIONS)
    )
    made = f"baseline of {len(of.runs)} runs, saved {of.saved_utc} by {of.saved_by}"
    return "; ".join((made, *versions))
