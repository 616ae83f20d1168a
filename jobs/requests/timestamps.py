# SPDX-License-Identifier: Apache-2.0
"""Times in value patterns: generalized time (RFC 4517 section 3.3.13), and formats of
times in the letters of Java's SimpleDateFormat, of which UnboundID's patterns take any;
those that make sense in UTC are known here."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from ldapslam.base.fault import Fault, got
from ldapslam.jobs.requests import template

_GENERALIZED_TIME = re.compile(
    r"(\d{4})(\d{2})(\d{2})(\d{2})(?:(\d{2})(\d{2})?)?(?:[.,](\d{1,9}))?"
    r"(?:Z|([+-])(\d{2})(\d{2})?)",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_NAMED = {
    "generalized": template.GENERALIZED,
    "milliseconds": template.MILLISECONDS,
    "seconds": template.SECONDS,
}
#: SimpleDateFormat's letters, in UTC, and the engine's.
_LETTERS = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%L",
    "Z": "+0000",
    "X": "Z",
}
_FORMAT_TOKEN = re.compile(r"'([^']*)'|([A-Za-z])\2*|([^A-Za-z'])|(')")
_MAX_FORMAT_BYTES = 1024


def parse_generalized_time(text: str) -> int:
    """Milliseconds after 1970."""
    fault = Fault(
        f"expected a generalized time, got {got(text)}",
        "such as 20180102030405.678Z (RFC 4517)",
    )
    match = _GENERALIZED_TIME.fullmatch(text)
    if match is None:
        raise fault
    year, month, day, hour, minute, second, fraction, sign, *offset = match.groups()
    # The fraction is one of the smallest unit that is given.
    unit_ms = 1000 if second else 60_000 if minute else 3_600_000
    digits = fraction or "0"
    fraction_ms = int(int(digits) * unit_ms // 10 ** len(digits))
    zone = timedelta(hours=int(offset[0] or 0), minutes=int(offset[1] or 0))
    try:
        when = datetime(
            int(year),
            int(month),
            int(day),
            int(hour),
            int(minute or 0),
            int(second or 0),
            tzinfo=timezone(-zone if sign == "-" else zone),
        ).astimezone(UTC)
    except (ValueError, OverflowError):
        raise fault from None
    return (when - _EPOCH) // _MILLISECOND + fraction_ms


def compile_format(text: str) -> tuple[int, bytes]:
    """A format's number in the engine, and its text there."""
    if text in _NAMED:
        return _NAMED[text], b""
    compiled = ""
    for token in _FORMAT_TOKEN.finditer(text):
        if token[4]:
            raise Fault(
                f"expected a format of times, got {got(text)}: a quote has no partner",
                "text stands between two: 'T'; a quote itself is two: ''",
            )
        if token[1] is not None:
            compiled += (token[1] or "'").replace("%", "%%")
        elif token[3]:
            compiled += token[3].replace("%", "%%")
        elif token[0] in _LETTERS:
            compiled += _LETTERS[token[0]]
        else:
            raise Fault(
                f"expected a format of times, got {got(text)}: "
                f"{got(token[0])} is not known",
                "generalized, milliseconds, seconds, or made of "
                + " ".join(_LETTERS)
                + " 'text' and punctuation",
            )
    data = compiled.encode()
    if len(data) > _MAX_FORMAT_BYTES:
        raise Fault(f"expected a format of at most {_MAX_FORMAT_BYTES} bytes")
    return template.FORMATTED, data
