# SPDX-License-Identifier: Apache-2.0
"""`data verify`: entries are compared, or their fingerprint is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.secrets import SecretRef
from ldapslam.cli.command import command
from ldapslam.cli.console import put_result, say
from ldapslam.cli.data.load_progress import EntryProgress
from ldapslam.cli.data.source import (
    check_uri,
    connected,
    directory_access,
    source_options,
    source_tree,
)
from ldapslam.cli.measure.quick_options import in_words_of_options
from ldapslam.cli.options import FILE, flag, option
from ldapslam.directory.comparison import Comparison, EntryDifference, compare
from ldapslam.directory.entry_digest import AttributeDifference, Fingerprint, Rules
from ldapslam.directory.fingerprint import SAMPLE, record_of
from ldapslam.directory.tree import DirectoryTree
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.jobs.fields.population import MAX_SAMPLE

_SHOWN_CHARACTERS = 60
_PASSWORD = "userpassword"


@command("verify")
@click.argument("expected", metavar="EXPECTED")
@click.argument("uri", metavar="[URI]", required=False)
@source_options
@option(
    "--expected-bind-dn DN",
    "The DN to bind as at EXPECTED, where that is a URI and -D is only for URI.",
)
@option("--expected-password-file FILE", "Its password, in a file.")
@option(
    "--sample N",
    "Compare the DNs of all entries, but the contents of only N; without URI: entries "
    f"in the record of --save, {SAMPLE} when left out.",
    type=click.IntRange(min=1),
)
@flag(
    "--passwords",
    "Compare userPassword too, as it is stored: not where a server hashes it.",
)
@option(
    "--save FILE",
    "Without URI: write the population's record, which a job names: `population: "
    "{file: …}`.",
    type=FILE,
)
@in_words_of_options()
def verify_command(expected: str, uri: str | None, **given: Any) -> ExitCode:
    """Compare the entries of a directory with EXPECTED, or print its fingerprint.

    EXPECTED is a file of LDIF, a template of `data generate` or a server's URI.
    Operational attributes are left out. Exit code 0: the entries are the same; 1: some
    are missing, extra or different; they are named.

    Without URI, the fingerprint of EXPECTED is printed, without passwords. The same
    entries have the same fingerprint, in any order, wherever they are.

    \b
      ldapslam data verify people.ldif ldap://ds1 -D cn=admin,dc=example,dc=com -y pw
      ldapslam data verify people ldap://ds1 --entries 10000 -D … -y …
      ldapslam data verify ldap://supplier ldap://replica -b dc=example,dc=com
      ldapslam data verify people.ldif --save people.population
    """
    if uri is None:
        return _put_fingerprint(expected, given)
    if given["save"] is not None:
        raise click.UsageError("--save goes without URI: it is the record of EXPECTED")
    check_uri(uri)
    rules = Rules(passwords=given["passwords"], ignored=frozenset(given["ignored"]))
    access = directory_access(uri, given)
    with (
        source_tree(expected, given, _expected_access) as (left, base),
        connected(uri, access) as connection,
        EntryProgress() as bar,
    ):
        result = compare(
            left,
            DirectoryTree(connection, uri, base),
            rules,
            sample=given["sample"],
            seed=given["seed"],
            progress=lambda name, entries: bar.show(f"{name}: {entries:,} entries"),
        )
    if result.expected.count == 0:
        raise _nothing(expected, base)
    names = {"expected": (expected, result.expected), "found": (uri, result.found)}
    lines = _lines(result, names)
    put_result(_document(result, names, base), lines)
    return ExitCode.PASS if result.is_equal else ExitCode.FAIL


def _expected_access(expected: str, given: dict[str, Any]) -> ConnectionSettings:
    dn, file = given["expected_bind_dn"], given["expected_password_file"]
    if (dn is None) != (file is None):
        raise click.UsageError(
            "--expected-bind-dn and --expected-password-file go together"
        )
    access = directory_access(expected, given)
    if dn is None:
        return access
    password = SecretRef(file=str(Path(file).absolute())).resolve()
    return replace(access, bind=BindSettings(dn, password))


def _nothing(source: str, base: str) -> ConfigError:
    return ConfigError(
        f"{source} has nothing at or below {base!r}",
        hint="is -b spelt as the entries' DNs are, and may the user read them?",
    )


#: Side of a comparison -> its name, and its entries.
_Sides = Mapping[str, tuple[str, Fingerprint]]


def _lines(result: Comparison, sides: _Sides) -> Iterator[str]:
    for name, total in sides.values():
        line = f"{name}: {total.count:,} entries"
        yield line if result.is_sample else f"{line}, fingerprint {total}"
    for kind in ("missing", "extra", "different"):
        count = getattr(result, kind)
        shown = [one for one in result.named if one.kind == kind]
        for one in shown:
            yield from _entry_lines(one)
        if count > len(shown):
            yield f"{kind}: {count - len(shown):,} more"
    contents = f"{result.compared:,} entries compared"
    if result.is_equal:
        yield (
            f"equal: all DNs, {contents}" if result.is_sample else f"equal: {contents}"
        )
    else:
        yield (
            f"not equal: {result.missing:,} missing, {result.extra:,} extra, "
            f"{result.different:,} different; {contents}"
        )


def _entry_lines(one: EntryDifference) -> Iterator[str]:
    if one.kind != "different":
        yield f"{one.kind}: {one.dn}"
    elif not one.attributes:
        yield f"different: {one.dn}: it was, and is no longer"
    for attribute in one.attributes:
        yield f"different: {one.dn}: {attribute.attribute}: {_values_text(attribute)}"


def _values_text(attribute: AttributeDifference) -> str:
    values = _values(attribute)
    if values is None:
        return "not the same"
    expected, found = (
        ", ".join(map(_shortened, texts)) or "no other value"
        for texts in values.values()
    )
    return f"expected {expected}, found {found}"


def _values(attribute: AttributeDifference) -> dict[str, list[str]] | None:
    """The values that only one side has, as text; None for passwords."""
    if attribute.attribute.partition(";")[0] == _PASSWORD:
        return None
    return {
        side: [
            one.decode(errors="backslashreplace") for one in getattr(attribute, side)
        ]
        for side in ("only_expected", "only_found")
    }


def _shortened(text: str) -> str:
    shown = text[:_SHOWN_CHARACTERS]
    return repr(shown) if shown == text else f"{shown!r}…"


def _document(result: Comparison, sides: _Sides, base: str) -> dict[str, Any]:
    counts = ("missing", "extra", "different", "compared", "is_sample")
    return {
        "is_equal": result.is_equal,
        "base": base,
        **{
            side: {
                "name": name,
                "entries": total.count,
                "fingerprint": None if result.is_sample else str(total),
            }
            for side, (name, total) in sides.items()
        },
        **{name: getattr(result, name) for name in counts},
        "named": [
            {
                "kind": one.kind,
                "dn": one.dn,
                "attributes": [
                    {"name": attribute.attribute, **(_values(attribute) or {})}
                    for attribute in one.attributes
                ],
            }
            for one in result.named
        ],
    }


def _put_fingerprint(source: str, given: dict[str, Any]) -> ExitCode:
    """Print the fingerprint of the entries of `source`; write the record of --save."""
    sample = given["sample"] or SAMPLE
    if sample > MAX_SAMPLE:
        raise click.UsageError(f"--sample: a record has at most {MAX_SAMPLE} entries")
    for name in ("passwords", "expected_bind_dn", "expected_password_file"):
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} needs URI")
    with (
        source_tree(source, given, directory_access) as (tree, base),
        EntryProgress() as bar,
    ):
        record = record_of(
            tree,
            base,
            ignored=given["ignored"],
            sample=sample,
            progress=lambda entries: bar.show(f"{source}: {entries:,} entries"),
        )
    if record is None:
        raise _nothing(source, base)
    if (path := given["save"]) is not None:
        try:
            path.write_text(record.to_text(), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"the record cannot be written to {str(path)!r}: {error.strerror}"
            ) from error
        say(f"{path} has {len(record.sample):,} of {record.entries:,} entries")
    document = {
        "base": base,
        "fingerprint": {"sha256": record.fingerprint, "entries": record.entries},
        "ignored": list(record.ignored),
    }
    line = f"fingerprint {record.fingerprint} of {record.entries:,} entries"
    put_result(document, [line])
    return ExitCode.PASS
