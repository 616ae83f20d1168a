# SPDX-License-Identifier: Apache-2.0
"""The report of a gate: its answer, then each figure's change and its tolerance; for
people, and for a pipeline as JUnit, Markdown and TAP. Pure but for the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

from ldapslam.base.inert import inert
from ldapslam.jobs.fields.thresholds import FigureName
from ldapslam.reports.charts.badge import badge
from ldapslam.reports.comparing.change import finite
from ldapslam.reports.comparing.sequential import FEWEST_DAYS
from ldapslam.reports.document import (
    BAD,
    GOOD,
    MUTED,
    NOT_AVAILABLE,
    NOTHING,
    Cell,
    ChartPlace,
    Document,
    Field,
    Table,
    column,
    no_value,
    number,
    section,
    table,
)
from ldapslam.reports.figures import Figure, metric_of
from ldapslam.reports.typeset import (
    changes,
    figure_columns,
    minute_utc,
    number_of,
    seconds,
    value_cell,
    verdict_cell,
)
from ldapslam.studies.baseline import Baseline, figures_of
from ldapslam.studies.gate import (
    ANSWERS,
    CANNOT_TELL,
    NO_REGRESSION,
    OLD,
    REGRESSION,
    Answer,
    JudgedFigure,
    Made,
    Rehearsed,
    joint_answer,
)
from ldapslam.studies.gate_facts import About, gate_facts
from ldapslam.studies.report import latest, write_reports

SCHEMA = "ldapslam-gate/1"
#: Verdict of a run that is INVALID only as it is too short for its thresholds.
_COUNTS = "counts"
_NOT_NEEDED = "which a longer run is, and a gate does not need"
_TOO_FEW = "too few pairs of runs"
#: How to get an answer where only the spread of figures is in the way.
TO_TELL = "give more --time or a larger --tolerance, or judge less with --metric"
#: Changes of error shares below this have more digits.
_FINE = 0.1
#: By how much the new side is worse in an A/A gate's rehearsals.
REHEARSED = (0.0, 0.02, 0.05, 0.1, 0.2)
GATE = "gate"
_VERDICTS = {REGRESSION: "FAIL", NO_REGRESSION: "PASS", CANNOT_TELL: "INVALID"}
_TONES = {REGRESSION: BAD, NO_REGRESSION: GOOD, CANNOT_TELL: MUTED}
#: With pairs, and with a baseline.
_SAMPLES = {
    True: "Each pair of runs, one of each side, gives one change, and the pairs are "
    "the sample (t).",
    False: "The runs of the baseline and the new runs are the samples (Welch's t, or "
    "Student's where it is wider; with how much days differ, where the baseline is of "
    "three or more).",
}
_TESTS = (
    "Intervals are 95 %, for all looks of the gate together (group-sequential, Lan and "
    "DeMets). A regression is a figure that is worse, by Holm over all figures, and by "
    "more than its tolerance; no regression: the interval lay within the tolerance at "
    "a look, and at none later wholly beyond it. Values and intervals of a row are "
    "those of the look that decided, else of the last look."
)
_WEAKER = (
    "The baseline was measured at another time: what the hosts do otherwise since then "
    "counts as a change. Old and new loaded in turn (--old, --new) are free of that."
)


@dataclass(frozen=True)
class GateAnswer:
    """What a gate has found, and how."""

    job: str
    #: Side -> what it is, as the command line has it.
    sides: Mapping[str, str]
    answer: Answer
    runs: Sequence[Made]
    #: Why it ended.
    ended: str
    seed: int
    #: What a pair took; with a baseline, a run.
    each_s: float
    #: Rehearsals of an A/A gate.
    rehearsed: Sequence[Rehearsed] = ()
    baseline: Baseline | None = None
    #: Differences from the baseline that are not under test: fact, old and new value.
    differences: Sequence[tuple[str, str, str]] = ()
    #: What of the servers could not be read, now or for the baseline, and why.
    unknown: Mapping[str, str] = field(default_factory=dict)
    #: How to get an answer, where there is none; the hint of an error that ended it.
    advice: str = ""
    #: Sentences on how the runs were made.
    notes: Sequence[str] = ()
    begun_utc: str = ""
    took_s: float = 0.0
    #: Side -> what its last run was.
    about: Mapping[str, About] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return _VERDICTS[self.answer.answer]

    @property
    def statement(self) -> str:
        """The answer in a sentence."""
        made = "one pair of runs"
        if self.answer.pairs != 1:
            made = f"{self.answer.pairs} pairs of runs"
        if self.baseline is not None:
            made = (
                f"{self.answer.pairs} runs against the {len(self.baseline.runs)} of "
                f"the baseline of {self.baseline.saved_utc[:10]}"
            )
        found = self.answer.answer
        if found == NO_REGRESSION:
            return (
                f"The new side is not worse: every figure is within its tolerance, and "
                f"no run FAILs ({made})."
            )
        if found == REGRESSION:
            return f"The new side is worse ({made})."
        if self.answer.is_biased:
            made += ", chosen from too many that were left out"
        return f"It is not clear whether the new side is worse ({made}): {self.ended}."

    @property
    def reasons(self) -> tuple[str, ...]:
        """A sentence for the error that ended the gate, and for all that the answer
        rests on."""
        found = self.answer.answer
        if found == NO_REGRESSION:
            return ()
        why = [self.answer.problem] if self.answer.problem else []
        if self.answer.is_biased:
            why += self.left_out()
        # of a gate that ended before its first look, those alone that ended it
        why += [
            sentence_of(one)
            for one in self.answer.figures
            if one.answer == found and (one.needs or one.change is not None)
        ]
        if self.answer.of_failed == found:
            why += self.failed()
        if host := self.answer.host:
            which = "busier" if host.hides == REGRESSION else "quieter"
            then = " to ".join(f"{one:.0%}" for one in host.then)
            why.append(
                f"the host was {which} than for the baseline, which changes figures, "
                f"too: other processes used {host.now:.0%} of its CPU time, {then} then"
            )
        if self.runs and not self.runs[-1].is_sound:
            last = self.runs[-1]
            why.append(f"last run of the {last.side} side: {'; '.join(last.reasons)}")
        if not why and self.answer.figures:
            return (_TOO_FEW,)
        return tuple(why) or ("no pair of runs has a figure to compare",)

    def left_out(self) -> Iterator[str]:
        """A sentence for each side that has runs that do not count."""
        for side, count in self.answer.unsound.items():
            if count:
                yield (
                    f"{count} of {self.answer.runs[side]} runs of the {side} side were "
                    "left out: the generator or the evidence was at fault"
                )

    def failed(self) -> Iterator[str]:
        """A sentence for each side that has runs that FAIL."""
        for side, count in self.answer.failed.items():
            if count:
                reasons = [
                    one.reasons
                    for one in self.runs
                    if (one.side, one.verdict) == (side, "FAIL")
                ]
                yield (
                    f"{count} of {self.answer.runs[side]} runs of the {side} side FAIL"
                    + "".join(f": {'; '.join(one)}" for one in reasons[-1:])
                )

    @property
    def explanation(self) -> tuple[str, ...]:
        """The reasons, and how to get an answer."""
        return (*self.reasons, *([self.remedy] if self.advice else []))

    @property
    def remedy(self) -> str:
        """How to get an answer, as a line."""
        return f"{'hint' if self.answer.problem else 'to tell'}: {self.advice}"

    @property
    def cautions(self) -> tuple[str, ...]:
        """Cautions for a reader of the answer."""
        found = list(self.notes)
        if not self.answer.is_biased:
            found += [f"{one}." for one in self.left_out()]
        if self.answer.answer == NO_REGRESSION:
            # of the old side: the new side's have an answer of their own
            found += [f"{one}." for one in self.failed()]
        if self.baseline is not None:
            found.append(_WEAKER)
            if len(days := set(self.baseline.days)) < FEWEST_DAYS:
                found.append(
                    f"The runs of the baseline are of {' and '.join(sorted(days))}: "
                    "no interval has how much days differ. Take runs of three days."
                )
        if self.differences:
            found.append(
                "The baseline was made in another way, so that a change may come from "
                "that: see the differences."
            )
        if self.unknown:
            areas = ", ".join(f"{name} ({why})" for name, why in self.unknown.items())
            found.append(
                f"It is not known whether the baseline had the same {areas}: a change "
                "may come from that."
            )
        return tuple(found)


def sentence_of(one: JudgedFigure) -> str:
    """What was found of a figure."""
    what = f"{one.name.words} of {one.name.title}"
    if one.needs:
        return f"{what}: n/a; needs {one.needs}"
    if one.change is None:
        return f"{what}: {_TOO_FEW}"
    text = (
        f"{what}: {_change_text(one)} after {one.pairs} {one.unit}, "
        f"tolerance {_tolerance_text(one)}"
    )
    if one.answer == CANNOT_TELL and one.found is not None:
        return f"{text}; only {_signed(one, one.found)} would have been found"
    if one.last is not None:
        text += f"; {_last_text(one)}"
    return text


def _last_text(one: JudgedFigure) -> str:
    """What the last look says, where an earlier one has decided."""
    assert one.last is not None
    shown = _change_text(replace(one, change=one.last))
    return (
        f"{shown} after {one.last_pairs}, which leaves it open: the first look counts"
    )


_CHANGES = ChartPlace(
    "gate-changes",
    "How much worse the new side is",
    "each figure's change with its interval, and its tolerance",
)


def gate_document(answer: GateAnswer) -> Document:
    """The gate as a document: its answer first."""
    has_changes = any(one.change is not None for one in answer.answer.figures)
    return Document(
        title=f"gate of {answer.job}",
        verdict=answer.verdict,
        statement=answer.statement,
        reasons=answer.explanation,
        cautions=answer.cautions,
        answer=answer.answer.answer.upper(),
        glance=(),
        facts=tuple(_facts(answer)),
        sections=(
            *section("rehearsal", "Rehearsal", _rehearsal(answer)),
            *section(
                *("changes", "Changes"),
                *(_figures(answer.answer), _CHANGES if has_changes else None),
            ),
            *section("differences", "Differences", _differences(answer)),
            *section("runs", "Runs", _runs(answer), in_appendix=True),
        ),
    )


def _facts(answer: GateAnswer) -> Iterator[tuple[str, str]]:
    yield "Job", answer.job
    yield from gate_facts(answer.sides, answer.about, answer.baseline)
    yield answer.answer.sample, str(answer.answer.pairs)
    if answer.begun_utc:
        took = seconds(answer.took_s)
        yield "Began", f"{minute_utc(answer.begun_utc)} UTC, took {took}"
    yield "Ended", answer.ended
    if answer.answer.is_paired:
        yield "Seed", str(answer.seed)


_BADGE_COLOURS = {
    NO_REGRESSION: "#1a7f37",
    REGRESSION: "#b31d28",
    CANNOT_TELL: "#7a5c00",
}


def write_gate(answer: GateAnswer, folder: Path) -> list[Path]:
    """Write gate.html, .pdf, .txt, .json, .md, .tap, junit.xml and badge.svg; their
    paths."""
    content = gate_document(answer)
    texts = {
        "junit.xml": junit(answer),
        f"{GATE}.md": markdown(answer),
        f"{GATE}.tap": tap(answer),
        "badge.svg": badge(f"gate {answer.job}", answer.answer.answer, _BADGE_COLOURS),
    }
    ended_utc = latest(one.ended_utc for one in answer.runs)
    draw, found = partial(_chart, answer), gate_json(answer)
    return write_reports(folder, GATE, content, draw, found, ended_utc, texts)


def gate_json(answer: GateAnswer) -> dict[str, Any]:
    """The content of gate.json."""
    return {
        "schema": SCHEMA,
        "job": answer.job,
        "answer": answer.answer.answer,
        "verdict": answer.verdict,
        "statement": answer.statement,
        "reasons": list(answer.reasons),
        "advice": answer.advice,
        "cautions": list(answer.cautions),
        "sides": dict(answer.sides),
        "about": {side: dict(of) for side, of in answer.about.items()},
        "begun_utc": answer.begun_utc,
        "took_s": answer.took_s,
        "pairs": answer.answer.pairs,
        "ended": answer.ended,
        "seed": answer.seed,
        "method": _method(answer.answer),
        "baseline": answer.baseline
        and {
            "saved_utc": answer.baseline.saved_utc,
            "saved_by": answer.baseline.saved_by,
            "runs": [one.run_id for one in answer.baseline.runs],
        },
        "differences": [
            {"fact": name, "was": was, "is": now}
            for name, was, now in answer.differences
        ],
        "unknown": dict(answer.unknown),
        "figures": [_figure_json(one) for one in answer.answer.figures],
        "each_s": answer.each_s,
        "rehearsed": [
            {
                "change": one.change,
                "answers": dict(one.answers),
                "pairs": one.pairs,
                "found_by": _by_operation(one.found_by),
            }
            for one in answer.rehearsed
        ],
        "runs": [
            {
                "pair": pair,
                "side": one.side,
                "run_id": one.run_id,
                "verdict": one.verdict,
                "reasons": list(one.reasons),
                "counts": one.is_sound,
                "pilot": one.is_pilot,
                "figures": figures_of(one.readings),
                "other_cpu_share": one.other_cpu_share,
            }
            for pair, one in _numbered(answer)
        ],
    }


def _by_operation(shares: Mapping[FigureName, float]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, share in shares.items():
        found.setdefault(name.title, {})[name.short] = share
    return found


def _figure_json(one: JudgedFigure) -> dict[str, Any]:
    change, last = ([*map(finite, of or ())] for of in (one.change, one.last))
    return {
        "operation": one.name.title,
        "metric": one.name.short,
        "answer": one.answer,
        "tolerance": one.tolerance,
        "old": one.old,
        "new": one.new,
        "ratio" if one.name.is_ratio else "difference": next(iter(change), None),
        "ci95": change[1:] or None,
        "pairs": one.pairs,
        "last": {"pairs": one.last_pairs, "change": last[0], "ci95": last[1:]}
        if last
        else None,
        "would_have_been_found": finite(one.found),
        "needs": one.needs,
        "sentence": sentence_of(one),
    }


class _Case(NamedTuple):
    """A test, for a pipeline."""

    operation: str
    metric: str
    answer: str
    sentence: str


def _cases(answer: GateAnswer) -> list[_Case]:
    """One of each figure, and of the runs; before them the gate itself, where an error
    ended it or they would imply another answer."""
    of = answer.answer
    is_judged = of.of_failed != CANNOT_TELL
    none_failed = "no run FAILs" if is_judged else _TOO_FEW
    failed = "; ".join(answer.failed()) or none_failed
    cases = [
        _Case(one.name.title, one.name.short, one.answer, sentence_of(one))
        for one in of.figures
    ]
    # of runs that an error has ended before they say anything, the error says it
    if is_judged or not of.problem:
        cases.append(_Case(GATE, "runs", of.of_failed, failed))
    if of.problem:
        why = "; ".join((of.problem, *([answer.remedy] if answer.advice else [])))
        return [_Case(GATE, GATE, CANNOT_TELL, why), *cases]
    if not of.figures or joint_answer([one.answer for one in cases]) != of.answer:
        return [_Case(GATE, GATE, of.answer, "; ".join(answer.reasons)), *cases]
    return cases


def junit(answer: GateAnswer) -> str:
    """A test case for each figure: a regression is its failure; what cannot be told,
    its error."""
    cases = _cases(answer)
    found = [one.answer for one in cases]
    suite = ElementTree.Element(
        "testsuite",
        name=inert(f"gate of {answer.job}"),
        tests=str(len(cases)),
        failures=str(found.count(REGRESSION)),
        errors=str(found.count(CANNOT_TELL)),
        skipped="0",
    )
    for one in cases:
        class_name = inert(f"{answer.job}.{one.operation}")
        case = ElementTree.SubElement(
            suite, "testcase", classname=class_name, name=one.metric
        )
        kind = {REGRESSION: "failure", CANNOT_TELL: "error"}.get(one.answer)
        if kind:
            message = inert(one.sentence)
            ElementTree.SubElement(case, kind, message=message, type=one.answer)
    said = inert("\n".join((answer.statement, *answer.explanation, *answer.cautions)))
    ElementTree.SubElement(suite, "system-out").text = said
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=True) + "\n"


def tap(answer: GateAnswer) -> str:
    """Test Anything Protocol, version 13: what cannot be told is not ok."""
    cases = _cases(answer)
    known = (answer.statement, *answer.explanation, *answer.cautions)
    told = (f"# {_line(one)}" for one in known)
    lines = ["TAP version 13", f"1..{len(cases)}", *told]
    for place, one in enumerate(cases, 1):
        word = "ok" if one.answer == NO_REGRESSION else "not ok"
        # a number sign begins a directive
        said = _line(f"{one.answer}: {one.sentence}").replace("#", "\\#")
        lines.append(f"{word} {place} - {said}")
    return "\n".join(lines) + "\n"


def _line(text: str) -> str:
    return inert(text).replace("\n", " ")


def markdown(answer: GateAnswer) -> str:
    """For the summary of a pipeline's step."""
    content = gate_document(answer)
    sections = [
        f"## {_escaped(content.title)}: {content.banner}",
        _escaped(answer.statement),
        "\n".join(
            f"- {_escaped(one)}" for one in (*answer.explanation, *answer.cautions)
        ),
        "\n".join(_markdown_rows(_figures(answer.answer))),
        "\n".join(f"- {name}: {_escaped(text)}" for name, text in content.facts),
        "<details><summary>Runs</summary>",
        "\n".join(_markdown_rows(_runs(answer))),
        "\n".join(f"- {_escaped(one)}" for one in _why(answer.runs)),
        "</details>",
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _markdown_rows(of: Table) -> Iterator[str]:
    titles = [f"{c.title} ({c.unit})" if c.unit else c.title for c in of.columns]
    yield "| " + " | ".join(map(_escaped, titles)) + " |"
    yield "|" + "|".join("---:" if c.is_number else "---" for c in of.columns) + "|"
    for row in of.rows:
        yield "| " + " | ".join(_escaped(cell.text) for cell in row) + " |"


def _escaped(text: str) -> str:
    """Names of a job are data, in Markdown as in HTML."""
    made = _line(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{one}" if one in "\\`*_[]|#~" else one for one in made)


def _figures(answer: Answer) -> Table:
    return table(
        "gate-figures",
        "The new side against the old side",
        answer.figures,
        column("Operation", lambda one: one.name.title),
        column("Metric", lambda one: one.name.heading),
        number("old", lambda one: value_cell(one.name, one.old, one.needs)),
        number("new", lambda one: value_cell(one.name, one.new, one.needs)),
        number("change (95 %)", _change_cell),
        number(
            f"after {answer.unit}",
            lambda one: str(one.pairs) if one.pairs else Cell(NOT_AVAILABLE, MUTED),
        ),
        number("tolerance", _tolerance_text),
        column("Answer", lambda one: Cell(one.answer, _TONES[one.answer])),
        number(
            "detectable",
            lambda one: (
                Cell(NOT_AVAILABLE, MUTED)
                if one.found is None
                else _signed(one, one.found)
            ),
        ),
        notes=(
            _method(answer),
            "detectable: a change of this size is found in 80 % of gates with this "
            "many runs and this spread.",
            *(
                f"{one.name.words} of {one.name.title}: {_last_text(one)}."
                for one in answer.figures
                if one.last is not None
            ),
        ),
    )


def _method(answer: Answer) -> str:
    return f"{_SAMPLES[answer.is_paired]} {_TESTS}"


def _differences(answer: GateAnswer) -> Table:
    return table(
        "gate-differences",
        "What differs from the baseline",
        answer.differences,
        column("Differs", lambda row: row[0]),
        column("was", lambda row: row[1]),
        column("is", lambda row: row[2]),
        limit=100,
    )


def _rehearsal(answer: GateAnswer) -> Table:
    def share(name: str) -> Field[Rehearsed]:
        return number(f"{name} (%)", lambda one: f"{one.answers[name] * 100:.1f}")

    return table(
        "gate-rehearsal",
        "What this gate finds on these hosts, in the time given",
        answer.rehearsed,
        column("New side is worse by", lambda one: f"{one.change * 100:g} %"),
        *map(share, ANSWERS),
        number("pairs", lambda one: f"{one.pairs:g}"),
        number("time (s)", lambda one: f"{one.pairs * answer.each_s:.0f}"),
        column("found by", _found_by),
        notes=(
            "Of 1,000 gates each: pairs of runs are drawn from those of this gate, the "
            "sides swapped at random and the change added to all times and rates. "
            "Pairs and time are medians. Regressions of the first line are false "
            "alarms. found by: the figures that showed it in half of the gates or "
            "more; a change of another figure is not found. The throughput of "
            "an open loop is its schedule's, until the server does not keep up: no "
            "change is added to it.",
        ),
    )


def _found_by(one: Rehearsed) -> str:
    found = [
        f"{name.words} of {name.title}"
        for name, share in one.found_by.items()
        if share >= 0.5
    ]
    return ", ".join(found) or NOTHING


def _change_cell(one: JudgedFigure) -> Cell | str:
    return no_value(one.needs) if one.change is None else _change_text(one)


def _change_text(one: JudgedFigure) -> str:
    assert one.change is not None
    form, (value, low, high) = _changes(one, *one.change)
    return f"{form.format(value)} ({low} to {high})"


def _signed(one: JudgedFigure, change: float) -> str:
    form, [text] = _changes(one, change)
    return form.format(text)


def _changes(one: JudgedFigure, *values: float) -> tuple[str, list[str]]:
    # tolerances of errors are tenths of a point, and less
    is_ratio = one.name.is_ratio
    is_fine = not is_ratio and max(map(abs, values)) < _FINE
    return changes(values, 3 if is_fine else 1, is_ratio=is_ratio)


def _percent(one: JudgedFigure, change: float) -> float:
    """In % of the old value, or in percentage points."""
    return (change - 1 if one.name.is_ratio else change) * 100


def _tolerance_text(one: JudgedFigure) -> str:
    unit = "%" if one.name.is_ratio else "points"
    text = f"{one.tolerance * 100:g} {unit}"
    return "1 point" if text == "1 points" else text


def _numbered(answer: GateAnswer) -> Iterator[tuple[int | None, Made]]:
    """All runs, with the number of their pair (with a baseline, of the run); None: it
    does not count."""
    size, number = 2 if answer.answer.is_paired else 1, 0
    for place in range(0, len(answer.runs), size):
        pair = answer.runs[place : place + size]
        counts = len(pair) == size and all(one.is_sound for one in pair)
        number += counts
        yield from ((number if counts else None, one) for one in pair)


def _runs(answer: GateAnswer) -> Table:
    figures = answer.answer.figures
    operations = list(dict.fromkeys(one.name.title for one in figures))
    metrics = dict.fromkeys(one.name.short for one in figures)
    made = [(str(pair or NOTHING), one) for pair, one in _numbered(answer)]
    meaning = f"of the pair; {NOTHING}: it does not count."
    if answer.baseline is not None:
        meaning = f"of the new run; {NOTHING}: of the baseline, or it does not count."
        made[:0] = [
            (NOTHING, Made(OLD, one.run_id, "PASS", (), True, readings=one.readings))
            for one in answer.baseline.runs
        ]

    def read(row: tuple[str, Made, str], name: FigureName) -> Figure | None:
        return row[1].readings.get(name.of(row[2]))

    operation: Field[tuple[str, Made, str]] = column("Operation", lambda row: row[2])
    return table(
        "gate-runs",
        "All runs, in the order in which they were made",
        [(pair, run, title) for pair, run in made for title in operations or [""]],
        column("No.", lambda row: row[0]),
        column("Side", lambda row: row[1].side),
        *[operation] * (len(operations) > 1),
        *figure_columns(map(metric_of, metrics), read),
        column("Verdict", lambda row: _verdict(row[1])),
        column("Run", lambda row: row[1].run_id or NOTHING),
        notes=(f"No.: {meaning}", *_why(answer.runs)),
        limit=500,
    )


def _verdict(run: Made) -> Cell:
    return Cell(_COUNTS) if run.uncertain else verdict_cell(run.verdict)


def _why(runs: Sequence[Made]) -> Iterator[str]:
    """What verdicts rest on: once, of runs that all say the same."""
    counts = Counter(
        (_COUNTS, "", f"not certain of {', '.join(one.uncertain)}, {_NOT_NEEDED}")
        if one.uncertain
        else (one.verdict, f" of the {one.side} side", "; ".join(one.reasons))
        for one in runs
        if one.reasons
    )
    for (verdict, side, reasons), count in counts.items():
        yield f"{verdict}, {number_of(count, 'run')}{side}: {reasons}."


def _chart(answer: GateAnswer, place: ChartPlace) -> str:
    from ldapslam.reports.charts.charts import Span, draw_spans

    spans = []
    for one in answer.answer.figures:
        if one.change is None:
            continue
        # to the right is worse, whatever the figure
        sign = -1 if one.name.is_rate else 1
        value, *ends = (sign * _percent(one, end) for end in one.change)
        label = f"{one.name.title} {one.name.words}"
        if one.pairs < answer.answer.pairs:
            label += f", after {one.pairs} {one.unit}"
        limit = one.tolerance * 100
        tone = _TONES[one.answer]
        spans.append(Span(label, value, min(ends), max(ends), limit, tone))
    return draw_spans(place, spans, "worse by (% of the old side; errors: points)")
