# SPDX-License-Identifier: Apache-2.0
"""Write the pages and tables that the code knows better than people.

python docs/generate.py             write them
python docs/generate.py --check     exit 1 when a committed page is not up to date
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from prometheus_client.metrics_core import Metric

from ldapslam.base.errors import EXIT_CODE_MEANING, ExitCode
from ldapslam.cli.command import is_common
from ldapslam.cli.command_tree import COMMANDS
from ldapslam.cli.hints import tables
from ldapslam.cli.main import cli
from ldapslam.coordinator.outputs import families
from ldapslam.coordinator.outputs.shown_runs import ShownRuns
from ldapslam.jobs import describe
from ldapslam.jobs.fields.sections import Section, fields_of, section_in
from ldapslam.jobs.fields.thresholds import figure_rows
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.types import job_types
from ldapslam.proto import operator_pb2
from ldapslam.reports.formats.exports import MONITOR_COLUMNS, interval_columns
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store

_ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(_ROOT / "tests"))

from support.store import Scenario, fill  # noqa: E402

_REFERENCE = _ROOT / "docs" / "reference"
#: Only its tables are written here, from cli/other_tools.toml.
_COMING_FROM = _ROOT / "docs" / "how-to" / "coming-from.md"
_NOTE = "<!-- Written by docs/generate.py: change the code, then `make pages`. -->"
#: An option that is the same in as many commands is explained once.
_COMMON_FROM = 5
#: More than `ldapslam --help` has room for.
_EXIT_CODES = {
    ExitCode.FAIL: "; also the default thresholds (errors, searches without entries, "
    "outages), and a server that was restarted",
    ExitCode.INVALID: ": the evidence or the generator is at fault, or the run leaves "
    "a threshold open; of `capacity`: what it found is only a lower bound",
    ExitCode.INTERNAL: "; a file with the details is named",
}


def pages() -> dict[Path, str]:
    """File -> text."""
    made = {
        "commands.md": _commands(),
        "job.md": _job(),
        "figures.md": _figures(),
        "thresholds.md": _thresholds(),
        "validity.md": _validity(),
        "metrics.md": _metrics(),
        "result.md": _result(),
    }
    texts = {
        _REFERENCE / name: "\n".join((_NOTE, "", *lines))
        for name, lines in made.items()
    }
    texts[_COMING_FROM] = _coming_from()
    return {
        path: re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"
        for path, text in texts.items()
    }


# -- Markdown --------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Text that means nothing to Markdown, but for what stands in backticks."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    parts[::2] = [re.sub(r"([*<\[\]])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"
    yield ""


def _fenced(text: str) -> Iterator[str]:
    yield from ("```text", *text.rstrip().splitlines(), "```", "")


# -- options of other tools ------------------------------------------------------------


def _coming_from() -> str:
    """The page as it is, with a table below each of its marks."""

    def filled(mark: re.Match[str]) -> str:
        rows = tables()[mark[2]]
        cells = [(row.names, row.here, row.remarks) for row in rows]
        return "\n".join((mark[1], "", *_table(("argument", "here", "remarks"), cells)))

    mark = r"(<!-- options: (\w+) -->)\n(?:\n?\|.*)*"
    return re.sub(mark, filled, _COMING_FROM.read_text())


# -- commands --------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield """# Commands, options and exit codes

`--help` (`-h`) of a command, or `ldapslam help COMMAND`, explains it. Results go to
stdout, everything else to stderr. These options stand before or after any command:
"""
    yield from _table(("option", "meaning"), _rows_of(cli, is_common))
    yield """
Other users of a host can read a command's arguments. So passwords are files or
references (`-y FILE`, `{env: NAME}`), and a store's password belongs in `~/.pgpass`
(or where `PGPASSFILE` says), in a service file (`postgresql:///?service=NAME` and
`PGSERVICEFILE`), or in a file that only you can read: `store = "…"` in the one that
`coordinator --config FILE` takes.

## Whose runs

Commands that take a RUN (`list` too) look for it at the coordinator of
`--coordinator` or `LDAPSLAM_COORDINATOR`, in the `--store`, or with `--local` in
`ldapslam-runs` of the current folder, where `ldapslam run` puts it, or a link to it
where `--out` names another folder. Without any of these: in `ldapslam-runs` if it has
runs, else at a coordinator that listens on this host's port 7400. A RUN
is an id, the beginning of one, `latest`, or the folder of a run.

## Exit codes
"""
    meanings = (
        (str(int(code)), text + _EXIT_CODES.get(code, ""))
        for code, text in EXIT_CODE_MEANING.items()
    )
    yield from _table(("exit code", "means"), meanings)
    yield "## Common options\n"
    yield f"These mean the same in {_COMMON_FROM} commands or more.\n"
    common = _common_options()
    yield from _table(("option", "meaning"), common)
    for heading, names in COMMANDS.items():
        yield f"## {heading}\n"
        for name in names:
            command = cli.get_command(click.Context(cli), name)
            assert command is not None
            yield from _command(command, f"ldapslam {name}", "###", common)


def _common_options() -> list[tuple[str, str]]:
    rows = Counter(_option_rows(cli))
    return [row for row, count in rows.items() if count >= _COMMON_FROM]


def _option_rows(command: click.Command) -> Iterator[tuple[str, str]]:
    """Names and meaning of the options of all commands of a group."""
    context = click.Context(command)
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from _options(inner)
            yield from _option_rows(inner)


def _options(command: click.Command) -> Iterator[tuple[str, str]]:
    """Return the options that not all commands have."""
    return _rows_of(command, lambda option: not is_common(option))


def _rows_of(
    command: click.Command, is_wanted: Callable[[click.Option], bool]
) -> Iterator[tuple[str, str]]:
    context = click.Context(command)
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden and is_wanted(option):
            record = option.get_help_record(context)
            assert record is not None
            names, meaning = record
            yield _code(" ".join(names.split())), _plain(meaning)


def _command(
    command: click.Command, name: str, level: str, common: Sequence[tuple[str, str]]
) -> Iterator[str]:
    context = click.Context(command, info_name=name)
    yield f"{level} {name}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"`{name} {usage}`\n"
    yield from _help(command.help or "")
    options = list(_options(command))
    if own := [row for row in options if row not in common]:
        yield from _table(("option", "meaning"), own)
    if shared := [row[0] for row in options if row in common]:
        yield f"[Common options](#common-options): {', '.join(shared)}.\n"
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from _command(inner, f"{name} {word}", f"{level}#", common)


def _help(text: str) -> Iterator[str]:
    """Paragraphs; one that click is not to wrap is shown as it is."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b"):
            yield from _fenced(paragraph.removeprefix("\b\n"))
        else:
            yield _plain(paragraph) + "\n"


# -- job files -------------------------------------------------------------------------


def _job() -> Iterator[str]:
    yield """# The job file

Every key of a job file, as `ldapslam describe` prints it. How the parts work
together is told in [load](load.md), [operations](operations.md) and
[connections](connections.md). Values carry their units: `250us`, `10s`, `500/s`,
`64MiB`.
"""
    for path, section in describe.once(describe.sections_of_jobs()):
        yield f"## {path or 'At the top'}\n"
        if path.startswith(f"{describe.TYPES}."):
            yield _plain(job_types()[path.partition(".")[2]].summary()) + "\n"
        yield from _section(section)
    yield "## Notations\n"
    for name, notation in describe.NOTATIONS.items():
        if name not in ("thresholds", "figures"):
            yield f"### {name}\n"
            yield from _fenced(notation)


def _section(section: type[Section]) -> Iterator[str]:
    yield _plain(section.summary()) + "\n"
    for rule, keys in (
        ("exactly one", section.exactly_one),
        ("at least one", section.at_least_one),
    ):
        if keys:
            yield f"Give {rule} of {', '.join(map(_code, keys))}.\n"
    rows = []
    for key, info in fields_of(section):
        text = _plain(info.description or "")
        if info.examples and section_in(info.annotation) is None:
            text += f"; such as {_code(str(info.examples[0]))}"
        default = describe.default_text(info).removeprefix(", ")
        default = default.removeprefix("default ")
        rows.append((_code(key), _plain(describe.kind_text(info)), default, text))
    yield from _table(("key", "value", "default", "meaning"), rows)


def _thresholds() -> Iterator[str]:
    yield """# Thresholds

What `thresholds:` of a job may say, as `ldapslam describe thresholds` prints it.
How they are judged is told in [the verdict](../explanation/verdict.md).
"""
    yield from _fenced(describe.NOTATIONS["thresholds"])


def _figures() -> Iterator[str]:
    yield "# Figures\n"
    yield from _fenced(describe.FIGURE_NAMES)
    rows = ((_code(name), unit, _plain(about)) for name, unit, about in figure_rows())
    yield from _table(("figure", "unit", "meaning"), rows)


def _validity() -> Iterator[str]:
    yield """# Validity rules

What must hold of the load generator and of the evidence, or a run is INVALID; of the
target, or it is FAIL. Each rule has a line in the report, and says so where it had
nothing to check. What is behind them is told in [the
verdict](../explanation/verdict.md#rules).
"""
    with Store.open("sqlite://") as store:
        rules = summarise(store, fill(store, Scenario())).rules
    # how many agents there must be depends on the run
    limits = {"agents_present": "all planned"}
    rows = (
        (
            _code(rule.name),
            _plain(rule.title),
            limits.get(rule.name, rule.limit),
            str(rule.cause),
            rule.remedy,
        )
        for rule in rules
    )
    yield from _table(("rule", "what must hold", "limit", "cause", "what helps"), rows)
    yield "## Other limits\n"
    yield "The limits are defaults; the job's `validity:` sets others.\n"
    yield from _section(Validity)


# -- figures for programs --------------------------------------------------------------


def _metrics() -> Iterator[str]:
    yield """# Metrics

What a coordinator gives Prometheus ([how](../how-to/metrics.md)).
"""
    with Store.open("sqlite://") as store:
        all_families: list[Metric] = [
            *families.fleet_families(operator_pb2.ListAgentsReply()),
            *families.state_families(ShownRuns()),
            *families.run_families([]),
            *families.store_families(store),
            *families.bound_families({}, {}),
        ]
    rows = (
        (
            _code(one.name + "_total" * (one.type == "counter")),
            one.type,
            ", ".join(getattr(one, "_labelnames", ())),
            _plain(one.documentation),
        )
        for one in all_families
    )
    yield from _table(("metric", "kind", "labels", "meaning"), rows)


def _result() -> Iterator[str]:
    schema = json.loads((_ROOT / "reports" / "result_schema.json").read_text())
    yield """# Result files

## result.json

All figures of a run, for programs. The schema is
[reports/result_schema.json](../../reports/result_schema.json), `ldapslam.result/1`:
keys may be added to it, none changes its meaning. `*` stands for a name, `[]` for
each item. A figure that does not exist is `null`, never 0.
"""
    header = ("key", "value", "meaning")
    yield from _table(header, _keys(schema, ""))
    for name, part in schema["$defs"].items():
        yield f"### {name}\n"
        if text := part.get("description"):
            yield _plain(text) + "\n"
        yield from _table(header, _keys(part, ""))
    yield """## intervals.csv

A row for each interval, agent and operation, and server where a role has several. An
empty field is a statistic that does not exist. Of an interval that lies partly in the
measure phase, `measured` is 1 in the row of the requests that count.
"""
    yield ", ".join(map(_code, interval_columns())) + "\n"
    yield "## monitors.csv\n"
    yield "A row for each metric of each reading; values as they were read.\n"
    yield ", ".join(map(_code, MONITOR_COLUMNS)) + "\n"


def _keys(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, str]]:
    """What is inside a value of the schema, depth first."""
    inner = {f"{path}.{key}".lstrip("."): one for key, one in _of(schema).items()}
    if isinstance(more := schema.get("additionalProperties"), dict):
        inner[f"{path}.*".lstrip(".")] = more
    if isinstance(items := schema.get("items"), dict):
        inner[f"{path}[]"] = items
    for key, one in inner.items():
        if key.endswith(("*", "[]")) and "$ref" not in one and _of(one):
            yield from _keys(one, key)
            continue
        yield _code(key), _kind(one), _plain(one.get("description", ""))
        yield from _keys(one, key)


def _of(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema.get("properties", {})
    return found


def _kind(schema: dict[str, Any]) -> str:
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return f"[{name}](#{name.lower()})"
    if "const" in schema:
        return _code(str(schema["const"]))
    if "enum" in schema:
        return " or ".join(_code(str(one)) for one in schema["enum"])
    kinds = schema.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    is_check = parser.parse_args().check
    stale = []
    for path, text in pages().items():
        if not path.exists() or path.read_text() != text:
            stale.append(path.name)
            if not is_check:
                path.write_text(text)
    if is_check and stale:
        print(f"not up to date: {', '.join(stale)}; hint: `make pages`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
