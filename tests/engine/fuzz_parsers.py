# SPDX-License-Identifier: Apache-2.0
"""Fuzzes what reads patterns, DNs, filters and entry templates.

    python tests/engine/fuzz_parsers.py --runs 1000000 --seed 1

Texts are mutated from a corpus; one that shows a new behaviour (another fault, another
combination of values) joins it. A finding is: any exception but a Fault, a Fault of
several lines, a text that takes more than two seconds, and a text that is accepted but
whose template the engine refuses, or makes a request of beyond the bounds that it has
(the engine's code runs under ASan and UBSan). The same seed makes the same texts;
`make check-full` calls it.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations.add import choose, compose, parse_templates
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.filter import compile_filter
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import (
    FILE_RANDOM,
    FILE_SEQUENCE,
    Template,
    compile_template,
)
from support.samples import Sampler, build

NAMES = {"who": 0, "base": 1}
SLOW_S = 2.0
MAX_CHARACTERS = 600
#: Templates that go to the engine together: their answers fit a pipe's buffer.
BATCH = 200

PATTERNS = [
    "user.[0-999]",
    "[9:0x3%0000]",
    "[random:8:hex][random:3]",
    "[file:names.txt][sequentialfile:a/b][streamfile:///tmp/x]",
    "[timestamp:min=20180101000000Z:max=20190101000000.5+0100:format=seconds]",
    "[timestamp:format=milliseconds][uuid][unique%000]",
    "[1-2][0..3)[[x]]",
    "[zipf:0-999:1.1%000][gauss:-5-5][hot:0-99:20%:0.8]",
    "[who][parent:base]",
]
DNS = [
    "uid=user.[0-9],ou=people,dc=example,dc=com",
    "cn=a\\,b+sn=[who],[base]",
    "cn=#04024869,2.5.4.3=\\41 x,[parent:base]",
]
FILTERS = [
    "(&(objectClass=person)(|(uid=user.[0-9])(!(cn=a*b*[who]))))",
    "(cn:dn:2.5.13.2:=[uuid])(x=*)",
    "(a;lang-de~=\\2a\\28[1:5])",
]
TEMPLATES = [
    "define suffix=dc=example,dc=com\n\ntemplate: person\nrdnAttr: uid+cn\n"
    "objectClass: top\nuid: user.<sequential:5>\ncn: {uid:3} <first> <last>\n"
    "sn: <random:alpha:1:9>\nmail: {uid}@[suffix]\n"
    "description: <presence:50><random:chars:abc:5>\nuserPassword: <base64:{uid}>\n",
    "template: base\nobjectClass: top\n\ntemplate: b\nextends: base\nrdnAttr: cn\n"
    "cn: <guid>\ntelephoneNumber: <random:telephone>\nl: <list:a:1,b:2><ifpresent:cn>\n"
    "x: <ifabsent:l:a>y\ny: <random:numeric:1:99:5><random:month:3><file:names.txt>\n"
    "z: <loop:1:3><random:hex:4><parentdn><_dn><dn>\n",
    "template: t\nrdnAttr: uid\nuid: <sequential>\ncn: <parent:dc> <_parentdn>\n"
    "sn: <random:base64:8> <random:alphanumeric:3:5> <random:numeric:4>\n",
]
#: What a text is mutated with: the grammars' own words, and trouble.
WORDS = [
    *"[]{}<>()\\,+=:;-%x*&|!~#\"'. \n\t\0ü€",
    *("[[", "]]", "[0-9]", "[who]", "[0..9)", "[uuid]", "%000", "x2", "0", "1", "-1"),
    *("9223372036854775807", "-9223372036854775808", "99999999999999999999", "65537"),
    *("random:", "file:", "timestamp:", "format=", "min=", "max=", "seconds"),
    *("zipf:", "gauss:", "hot:", "unique", "parent:", "1e9", "0.5", "64", "20%", "nan"),
    *("\\2a", "\\", ":=", ":dn", ">=", "(", "cn=", "dc=com", "\U000f0000", "\ud800"),
    *(
        "<first>",
        "<presence:50>",
        "<random:",
        "<list:",
        "<sequential",
        "{cn}",
        "{cn:1}",
    ),
    *(
        "<ifpresent:",
        "<ifabsent:",
        "<base64:",
        "<loop:1:3>",
        "template: t\n",
        "cn: a\n",
    ),
    *("rdnAttr: cn\n", "extends: t\n", "define a=b\n", "branch: dc=com\n", "<dn>"),
]


def _pattern(text: str) -> list[Template]:
    return [compile_template(*parse_pattern(text, NAMES).nodes)]


def _dn(text: str) -> list[Template]:
    return [compile_template(*parse_dn(text, NAMES).nodes)]


def _filter(text: str) -> list[Template]:
    return [compile_template(compile_filter(text, NAMES))]


def _template(text: str) -> list[Template]:
    text = text.encode(errors="replace").decode()  # as a file is read
    templates = parse_templates(text, "t.template")
    entry = compose(choose(templates, next(iter(templates), None)), "dc=x", Scope())
    return [compile_template(*entry.attributes), *(let.template for let in entry.lets)]


#: Each parser, the texts that it begins with, and its share of the runs.
PARSERS: list[tuple[Callable[[str], list[Template]], list[str], int]] = [
    (_pattern, PATTERNS, 4),
    (_filter, FILTERS, 2),
    (_dn, DNS, 2),
    (_template, TEMPLATES, 2),
]


def _mutated(rng: random.Random, corpus: Sequence[str], seeds: Sequence[str]) -> str:
    # Half of the time from the seeds: what grows from faults is mostly faults.
    text = rng.choice(corpus if rng.randrange(2) else seeds)
    for _ in range(1 << rng.randrange(3)):
        start = rng.randint(0, len(text))
        end = min(len(text), start + rng.randrange(1 << rng.randrange(1, 6)))
        match rng.randrange(6):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + text[start:end] * 2 + text[end:]
            case 2:
                other = rng.choice(corpus)
                cut = rng.randint(0, len(other))
                text = text[:start] + other[cut : cut + end - start + 8] + text[end:]
            case 3:
                text = text[:start] + chr(rng.randrange(128)) + text[start + 1 :]
            case _:
                text = text[:start] + rng.choice(WORDS) + text[start:]
    return text[:MAX_CHARACTERS]


def _behaviour(parsed: list[Template] | Fault) -> object:
    """What sets a text apart from those of the corpus."""
    if isinstance(parsed, Fault):
        return tuple(re.findall("[a-z]+", parsed.reason)[:4])
    return tuple(tuple(sorted({v.kind for v in t.values})) for t in parsed[:4])


def _with_a_file(template: Template, path: bytes) -> Template:
    """The template with an existing file for each that it names."""
    values = tuple(
        replace(v, data=path) if v.kind in (FILE_RANDOM, FILE_SEQUENCE) else v
        for v in template.values
    )
    return replace(template, values=values)


class Finding(Exception):
    """What must not happen, with the text that makes it happen."""


def _run(parse: Callable[[str], list[Template]], text: str) -> list[Template] | Fault:
    started = time.perf_counter()
    try:
        parsed: list[Template] | Fault = parse(text)
    except Fault as fault:
        if "\n" in fault.reason:
            raise Finding(f"a fault of several lines: {text!r}") from None
        parsed = fault
    except Exception as error:
        traceback.print_exc()
        raise Finding(f"{type(error).__name__}: {error}: {text!r}") from error
    if time.perf_counter() - started > SLOW_S:
        raise Finding(f"more than {SLOW_S} s: {text!r}")
    return parsed


def _engine_takes(sampler: Sampler, batch: list[tuple[str, Template]]) -> None:
    answers = sampler.refusals([template for _, template in batch])
    for (text, _), answer in zip(batch, answers, strict=True):
        if answer != "ok":
            raise Finding(f"the engine refuses {text!r}: {answer}")
    batch.clear()


def fuzz(runs: int, seed: int) -> dict[str, int]:
    """Executions, accepted texts and behaviours."""
    rng = random.Random(seed)
    corpora = [list(seeds) for _, seeds, _ in PARSERS]
    known: list[set[object]] = [set() for _ in PARSERS]
    shares = [share for _, _, share in PARSERS]
    batch: list[tuple[str, Template]] = []
    accepted = 0
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "lines")
        lines.write_text("one\r\ntwo\n")
        sampler = build(Path(folder), "-g", "-fsanitize=address,undefined")
        for which in rng.choices(range(len(PARSERS)), shares, k=runs):
            parse, seeds, _ = PARSERS[which]
            corpus = corpora[which]
            text = _mutated(rng, corpus, seeds)
            parsed = _run(parse, text)
            behaviour = _behaviour(parsed)
            if behaviour not in known[which]:
                known[which].add(behaviour)
                corpus.append(text)
            if not isinstance(parsed, Fault):
                accepted += 1
                batch += [
                    (text, _with_a_file(t, str(lines).encode()))
                    for t in parsed
                    if t.program
                ]
                if len(batch) >= BATCH:
                    _engine_takes(sampler, batch)
        if batch:
            _engine_takes(sampler, batch)
        sampler.close()
    return {"runs": runs, "accepted": accepted, "behaviours": sum(map(len, known))}


def _worker(arguments: tuple[int, int]) -> dict[str, int] | str:
    try:
        return fuzz(*arguments)
    except Finding as finding:
        return f"seed {arguments[1]}: {finding}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--runs", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--processes", type=int, default=2)
    chosen = options.parse_args()
    share = -(-chosen.runs // chosen.processes)
    work = [(share, chosen.seed * 1000 + i) for i in range(chosen.processes)]
    with get_context("spawn").Pool(chosen.processes) as pool:
        results = pool.map(_worker, work, chunksize=1)
    for result in results:
        print(result, file=sys.stderr if isinstance(result, str) else sys.stdout)
    return 1 if any(isinstance(result, str) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
