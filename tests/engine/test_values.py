# SPDX-License-Identifier: Apache-2.0
"""What patterns draw: the engine's own code, against what the notation means.

Every sample has a fixed seed, so a test that passes once passes always: a p-value is
not drawn anew, it only has to be above 0.001."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs import plan
from ldapslam.jobs.requests.filter import compile_filter
from ldapslam.jobs.requests.pattern import parse_pattern
from ldapslam.jobs.requests.template import (
    FILE_SEQUENCE,
    SEQUENCE,
    UNIQUE,
    OptionalGroup,
    Template,
    ValueSource,
    choice,
    compile_template,
    number_uniques,
)
from support.engine import (
    BUSY_LATER,
    S,
    open_stream,
    run,
    search,
    searched_value,
    source,
    steady,
    stream,
)
from support.fake_ldap import FakeLdap, result, send_and_stay
from support.samples import Sampler, fleet

SIGNIFICANCE = 0.001
DRAWS = 40_000

#: Connections of the run, and each agent's workers.
FLEETS = [
    pytest.param(21, [3] * 7, id="one-connection-a-worker"),
    pytest.param(100, [3] * 7, id="7-agents-of-3-workers"),
    pytest.param(64, [1, 3, 2, 4, 1, 2, 5], id="agents-with-different-workers"),
    pytest.param(12, [3] * 7, id="fewer-connections-than-workers"),
    pytest.param(5, [3] * 7, id="fewer-connections-than-agents"),
]


def compiled(text: str) -> Template:
    return compile_template(*parse_pattern(text).nodes)


def drawn(sampler: Sampler, text: str, count: int = DRAWS) -> list[str]:
    return [value.decode() for value in sampler.texts(compiled(text), count)]


def fits(observed: Counter[int], probabilities: Sequence[float]) -> float:
    """p-value of a chi-square test; classes of small expectation are put together."""
    draws = sum(observed.values())
    got, expected, rest_got, rest_expected = [], [], 0.0, 0.0
    for member, probability in enumerate(probabilities):
        rest_got += observed[member]
        rest_expected += probability * draws
        if rest_expected >= 10:
            got.append(rest_got)
            expected.append(rest_expected)
            rest_got = rest_expected = 0.0
    got[-1] += rest_got
    expected[-1] += rest_expected
    assert sum(got) == draws, "a value outside of the range"
    scale = draws / sum(expected)
    return float(scipy.stats.chisquare(got, [e * scale for e in expected]).pvalue)


# -- in turn --------------------------------------------------------------------------


@pytest.mark.parametrize(("connections", "workers"), FLEETS)
@pytest.mark.parametrize("rounds", [1, 3])
def test_fleet_sends_each_sequential_value_once_a_round(
    sampler: Sampler, connections: int, workers: list[int], rounds: int
) -> None:
    request = compile_template(compile_filter("(uid=user.[5000:1000%00000])"))
    sent: Counter[str] = Counter()
    for share in fleet(connections, workers):
        count = share.takes(rounds * 4001)
        for message in sampler.requests(request, count, share=share):
            match = re.search(rb"user\.(\d{5})$", message)
            assert match
            sent[match[1].decode()] += 1
    assert sent == {f"{number:05}": rounds for number in range(1000, 5001)}


@pytest.mark.parametrize(("connections", "workers"), FLEETS)
def test_fleet_sends_each_line_of_a_file_once_a_round(
    sampler: Sampler,
    connections: int,
    workers: list[int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("feed") / "lines"
    path.write_bytes(b"\r\n".join(b"line %d" % i for i in range(997)))
    source = ValueSource(FILE_SEQUENCE, data=str(path).encode())
    sent: Counter[bytes] = Counter()
    for share in fleet(connections, workers):
        sent.update(
            sampler.texts(compile_template(source), share.takes(997), share=share)
        )
    assert sent == {b"line %d" % i: 1 for i in range(997)}


@pytest.mark.parametrize(("connections", "workers"), FLEETS)
def test_unique_numbers_are_unique_over_sources_and_fleet(
    sampler: Sampler, connections: int, workers: list[int]
) -> None:
    templates = number_uniques([compiled("[unique][[[unique]"), compiled("[unique]")])
    sent: list[bytes] = []
    for share in fleet(connections, workers):
        for template in templates:
            for text in sampler.texts(template, 300, share=share):
                sent += text.split(b"[")
    assert len(set(sent)) == len(sent)


@given(
    connections=st.integers(1, 60),
    workers=st.lists(st.integers(1, 5), min_size=1, max_size=7),
    lo=st.integers(-50, 50),
    hi=st.integers(-50, 50),
    step=st.integers(1, 9),
)
def test_any_fleet_goes_through_any_sequence_once(
    sampler: Sampler,
    connections: int,
    workers: list[int],
    lo: int,
    hi: int,
    step: int,
) -> None:
    members = range(lo, hi + 1, step) if lo <= hi else range(lo, hi - 1, -step)
    template = compile_template(ValueSource(SEQUENCE, lo, hi, step))
    sent = [
        int(text)
        for share in fleet(connections, workers)
        for text in sampler.texts(template, share.takes(len(members)), share=share)
    ]
    assert sorted(sent) == sorted(members)


@given(
    text=st.lists(
        st.sampled_from(["[3:17x4%000]", "[9:0]", "ab", "[[", "ü", "[-2:2]"])
    ),
)
def test_notation_and_engine_agree_on_what_comes_next(
    sampler: Sampler, text: list[str]
) -> None:
    """Compare with the notation read in Python, token by token."""
    sequences: dict[str, Callable[[int], str]] = {
        "[3:17x4%000]": lambda x: f"{3 + 4 * (x % 4):03}",
        "[9:0]": lambda x: str(9 - x % 10),
        "[-2:2]": lambda x: str(x % 5 - 2),
    }
    expected = []
    for x in range(12):
        pieces = (sequences[t](x) if t in sequences else t for t in text)
        expected.append("".join(pieces).replace("[[", "["))
    template = compiled("x" + "".join(text))
    assert sampler.texts(template, 12) == [("x" + e).encode() for e in expected]


# -- at random ------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["[-7-12]", "[0-999]", "[5-5]"])
def test_random_numbers_are_uniform(sampler: Sampler, text: str) -> None:
    lo, hi = (int(n) for n in re.findall(r"^\[(-?\d+)-(\d+)", text)[0])
    observed = Counter(int(value) - lo for value in drawn(sampler, text))
    if lo == hi:
        assert observed == {0: DRAWS}
        return
    assert fits(observed, [1 / (hi - lo + 1)] * (hi - lo + 1)) > SIGNIFICANCE


@pytest.mark.parametrize("exponent", [0.3, 1, 1.001, 3])
@pytest.mark.parametrize("members", [2, 100_000])
def test_zipf_is_zipfian(sampler: Sampler, exponent: float, members: int) -> None:
    values = drawn(sampler, f"[zipf:100-{99 + members}:{exponent}]")
    ranks = np.arange(1, members + 1, dtype=float)
    weights = ranks**-exponent
    probabilities = list(weights / weights.sum())
    observed = Counter(int(value) - 100 for value in values)
    assert fits(observed, probabilities) > SIGNIFICANCE


def test_zipf_is_zipfian_in_a_sample_that_shows_half_a_percent(
    sampler: Sampler,
) -> None:
    values = drawn(sampler, "[zipf:0-9:1]", 1_000_000)
    harmonic = sum(1 / k for k in range(1, 11))
    observed = Counter(map(int, values))
    assert fits(observed, [1 / k / harmonic for k in range(1, 11)]) > SIGNIFICANCE


@pytest.mark.parametrize("exponent", [0.5, 1, 1.2])
def test_zipf_of_more_members_than_could_be_tabulated_is_zipfian(
    sampler: Sampler, exponent: float
) -> None:
    """Kolmogorov-Smirnov over 10^12 members: the sum of k^-s from Euler and Maclaurin,
    whose error from k = 1000 on is far below that of the sample."""
    members = 10**12
    values = np.sort(
        [float(v) for v in drawn(sampler, f"[zipf:1-{members}:{exponent}]")]
    )
    head = np.cumsum(np.arange(1, 1001, dtype=float) ** -exponent)

    def total(k: Any) -> Any:
        if exponent == 1:
            area = np.log(k / 1000)
        else:
            area = (k ** (1 - exponent) - 1000 ** (1 - exponent)) / (1 - exponent)
        ends = (k**-exponent - 1000.0**-exponent) / 2
        return np.where(
            k <= 1000, head[np.minimum(k, 1000).astype(int) - 1], head[-1] + area + ends
        )

    # Of equal values the last one's step counts: the distribution is discrete.
    uniques, last = np.unique(values[::-1], return_index=True)
    empirical = (len(values) - last) / len(values)
    distance = np.abs(
        empirical - total(uniques) / total(np.array([float(members)]))
    ).max()
    assert distance < scipy.stats.kstwobign.isf(SIGNIFICANCE) / np.sqrt(len(values))


@pytest.mark.parametrize("members", [2, 7, 100, 5000])
def test_gauss_is_normal_cut_at_three_standard_deviations(
    sampler: Sampler, members: int
) -> None:
    edges = scipy.stats.norm.cdf(np.linspace(-3, 3, members + 1))
    probabilities = list(np.diff(edges) / (edges[-1] - edges[0]))
    observed = Counter(
        int(value) + 50 for value in drawn(sampler, f"[gauss:-50-{members - 51}]")
    )
    assert fits(observed, probabilities) > SIGNIFICANCE


def test_gauss_of_a_wide_range_passes_kolmogorov_and_smirnov(sampler: Sampler) -> None:
    values = np.array([float(v) for v in drawn(sampler, "[gauss:0-999999999999]")])
    scaled = (values + 0.5) / 1e12 * 6 - 3
    distribution = scipy.stats.truncnorm(-3, 3)
    assert scipy.stats.kstest(scaled, distribution.cdf).pvalue > SIGNIFICANCE
    tails = int((np.abs(scaled) > 2.9).sum())
    expected = 2 * distribution.cdf(-2.9)
    assert scipy.stats.binomtest(tails, len(scaled), expected).pvalue > SIGNIFICANCE


def test_hot_numbers_are_hit_as_often_as_they_should(sampler: Sampler) -> None:
    observed = Counter(int(value) for value in drawn(sampler, "[hot:0-99:20%:0.8]"))
    probabilities = [0.8 / 20] * 20 + [0.2 / 80] * 80
    assert fits(observed, probabilities) > SIGNIFICANCE


@pytest.mark.parametrize("charset", ["alphabet", "01", "aab", "base64"])
def test_random_characters_are_uniform_and_independent(
    sampler: Sampler, charset: str
) -> None:
    text = "".join(drawn(sampler, f"[random:37:{charset}]", 2000))
    characters = {"alphabet": "abcdefghijklmnopqrstuvwxyz", "aab": "ab"}.get(
        charset, "".join(sorted(set(text)))
    )
    assert len(characters) == {"alphabet": 26, "01": 2, "aab": 2, "base64": 64}[charset]
    weights = (
        [2 / 3, 1 / 3] if charset == "aab" else [1 / len(characters)] * len(characters)
    )
    index = {character: i for i, character in enumerate(characters)}
    codes = [index[character] for character in text]
    assert fits(Counter(codes), weights) > SIGNIFICANCE
    pairs = Counter(
        a * len(weights) + b for a, b in zip(codes[::2], codes[1::2], strict=True)
    )
    assert fits(pairs, [a * b for a in weights for b in weights]) > SIGNIFICANCE


def test_random_times_are_uniform_between_their_bounds(sampler: Sampler) -> None:
    texts = drawn(
        sampler, "[timestamp:min=20180101000000Z:max=20181231235959.999Z]", 5000
    )
    times = [
        datetime.strptime(text, "%Y%m%d%H%M%S.%fZ").replace(tzinfo=UTC).timestamp()
        for text in texts
    ]
    first = datetime(2018, 1, 1, tzinfo=UTC).timestamp()
    year = 365 * 86400
    assert (
        scipy.stats.kstest(times, scipy.stats.uniform(first, year).cdf).pvalue
        > SIGNIFICANCE
    )


@given(st.integers(-62_135_596_800_000, 253_402_300_799_998))
def test_time_is_written_as_python_writes_it(sampler: Sampler, ms: int) -> None:
    """Python has no year before 1 and no more digits than four either."""
    source = parse_pattern("[timestamp]").sources[0]
    assert isinstance(source, ValueSource)
    lo = ms if ms else 1
    fixed = ValueSource(source.kind, lo, lo, source.step)
    seconds, rest = divmod(lo, 1000)
    when = datetime(1970, 1, 1) + np.timedelta64(seconds, "s").astype(object)
    expected = f"{re.sub('[-T:]', '', when.isoformat())}.{rest:03}Z"
    assert sampler.texts(compile_template(fixed), 1) == [expected.encode()]


def test_uuids_have_all_their_random_bits(sampler: Sampler) -> None:
    ids = [int(text.replace("-", ""), 16) for text in drawn(sampler, "[uuid]", 4000)]
    assert len(set(ids)) == len(ids)
    for bit in range(128):
        ones = sum(number >> bit & 1 for number in ids)
        if 76 <= bit < 80 or bit in (62, 63):
            assert ones in (0, len(ids))
        else:
            assert scipy.stats.binomtest(ones, len(ids)).pvalue > SIGNIFICANCE / 128


def test_weighted_list_is_drawn_by_weight(sampler: Sampler) -> None:
    weights = [1, 0, 7, 2, 10]
    source = choice((b"%d" % i, weight) for i, weight in enumerate(weights))
    observed = Counter(sampler.numbers(source, DRAWS))
    assert observed[1] == 0
    assert fits(observed, [w / 20 for w in weights]) > SIGNIFICANCE


def test_optional_parts_come_independently_with_their_chances(sampler: Sampler) -> None:
    template = compile_template(
        OptionalGroup(250_000, (b"a", OptionalGroup(500_000, (b"b",)))),
        OptionalGroup(600_000, (b"c",)),
    )
    observed = Counter(sampler.texts(template, DRAWS))
    outcomes = {
        b"": 0.75 * 0.4,
        b"a": 0.25 * 0.5 * 0.4,
        b"ab": 0.25 * 0.5 * 0.4,
        b"c": 0.75 * 0.6,
        b"ac": 0.25 * 0.5 * 0.6,
        b"abc": 0.25 * 0.5 * 0.6,
    }
    by_index = Counter({i: observed[text] for i, text in enumerate(outcomes)})
    assert fits(by_index, list(outcomes.values())) > SIGNIFICANCE


def test_equal_seeds_draw_equal_values_and_different_ones_do_not(
    sampler: Sampler,
) -> None:
    template = compiled("[0-999999][zipf:0-9:1][gauss:0-9][random:5][uuid]")
    first = sampler.texts(template, 100, seed=7)
    assert sampler.texts(template, 100, seed=7) == first
    assert sampler.texts(template, 100, seed=8) != first


AGENTS, WORKERS = 7, 3


def sent_by_fleet(
    connections: int, count: int, values: tuple[Any, ...], **settings: Any
) -> Counter[int]:
    """How often each number was searched for in a run of `count` searches; the agents
    run one after the other."""
    sent: Counter[int] = Counter()
    with FakeLdap(send_and_stay(result)) as server:
        for agent in range(AGENTS):
            make = open_stream if "rate_per_s" in settings else stream
            run(
                make(
                    server.uri,
                    operations=[search(values)],
                    connections=plan.share(connections, AGENTS, agent),
                    first_connection=agent,
                    connection_stride=AGENTS,
                    total_connections=connections,
                    total_operations=count,
                    **settings,
                ),
                workers=WORKERS,
                duration_ns=5 * S,
            )
        sent.update(searched_value(request.content) for request in server.requests)
    return sent


def test_fleet_sends_each_sequential_value_once() -> None:
    sent = sent_by_fleet(50, 1000, source(SEQUENCE, 100, 1099))
    assert sent == dict.fromkeys(range(100, 1100), 1)


def test_fleet_of_an_open_stream_sends_each_value_once_a_round() -> None:
    sent = sent_by_fleet(
        21,
        1000,
        source(SEQUENCE, 0, 499),
        rate_per_s=20_000,
        profile=[steady(20_000), BUSY_LATER],
        arrivals="poisson",
    )
    assert sent == dict.fromkeys(range(500), 2)


def test_fleet_sends_no_unique_number_twice() -> None:
    sent = sent_by_fleet(24, 1000, source(UNIQUE))
    assert len(sent) == sum(sent.values()) == 1000
