# SPDX-License-Identifier: Apache-2.0
"""What a load keeps of itself: to go on with, and only with that."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.add_order import Add, Outcome
from ldapslam.dataset.ldif import Record, ldif_entries, open_ldif, records
from ldapslam.dataset.load import POPULATION
from ldapslam.dataset.load_state import LoadState, Progress
from ldapslam.directory.entry_digest import entry_digest

URI = "ldap://ds1"


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "people.ldif"
    entries = [f"dn: cn={number},dc=x\ncn: {number}\n\n" for number in range(6)]
    path.write_text("".join(entries))
    return path


def state(ldif: Path, uri: str = URI, *, restart: bool = False) -> LoadState:
    return LoadState(ldif, uri, ldif.with_name("rejects"), restart=restart)


def read(ldif: Path, progress: Progress) -> Iterator[Record]:
    with open_ldif(ldif) as stream:
        stream.seek(progress.offset_bytes)
        yield from records(
            stream, "f", line=progress.line, offset_bytes=progress.offset_bytes
        )


def settle(one: LoadState, ldif: Path, outcomes: list[Outcome]) -> None:
    for outcome, record in zip(outcomes, read(ldif, one.progress), strict=False):
        add = Add(record, b"", outcome=outcome, reason="alreadyExists (68):\n no")
        digest = entry_digest(record.dn, record.attributes, POPULATION)
        one.settle(add, digest)


ADDED, PRESENT, REJECTED = Outcome.ADDED, Outcome.PRESENT, Outcome.REJECTED


def test_a_load_goes_on_where_it_was(ldif: Path) -> None:
    with state(ldif) as one:
        assert not one.is_resumed
        settle(one, ldif, [ADDED, REJECTED, ADDED])
        one.save(1.5, [])
        # all of this is lost
        settle(one, ldif, [REJECTED, ADDED])
    with state(ldif) as two:
        assert two.is_resumed
        progress = two.progress
        assert (progress.added, progress.rejected, progress.seconds) == (2, 1, 1.5)
        assert next(read(ldif, progress)).dn == "cn=3,dc=x"
        settle(two, ldif, [REJECTED, PRESENT, ADDED])
        two.finish(2.0)
        assert (two.progress.present, two.progress.added) == (1, 3)
    rejects = ldif.with_name("rejects")
    # a line of its own above the lines as they were
    assert rejects.read_text() == "".join(
        f"# line {1 + 3 * number}: alreadyExists (68): no\n"
        f"dn: cn={number},dc=x\ncn: {number}\n\n"
        for number in (1, 3)
    )
    assert [dn for dn, _ in ldif_entries(rejects)] == ["cn=1,dc=x", "cn=3,dc=x"]
    assert not state(ldif).is_resumed


def test_the_fingerprint_is_of_what_is_there(ldif: Path) -> None:
    with state(ldif) as one:
        settle(one, ldif, [ADDED] * 3)
        one.save(0.0, [])
    with state(ldif) as two:
        settle(two, ldif, [PRESENT, ADDED, ADDED])
        two.finish(0.0)
    with state(ldif) as whole:
        settle(whole, ldif, [ADDED] * 6)
    assert str(whole.progress.fingerprint) == str(two.progress.fingerprint)
    assert whole.progress.fingerprint.count == 6


def test_another_load_is_not_gone_on_with(ldif: Path) -> None:
    with state(ldif):
        pass
    with pytest.raises(ConfigError, match="is of another load") as error:
        state(ldif, "ldap://ds2")
    assert "--restart" in str(error.value.hint)
    with state(ldif, restart=True) as one:
        assert not one.is_resumed
        assert one.progress == Progress()


def test_what_was_not_loaded_may_be_changed(ldif: Path) -> None:
    with state(ldif) as one:
        settle(one, ldif, [ADDED] * 3)
        one.save(0.0, [])
    text = ldif.read_text()
    ldif.write_text(text.replace("cn: 4\n", "cn: 4\nsn: mended\n"))
    assert state(ldif).progress == one.progress
    for changed in (
        text.replace("cn: 1\n", "cn: 1\nsn: else\n"),
        text.replace("cn=0", "cn=9").replace("cn: 0", "cn: 9"),
        text.replace("cn: 1\n\n", "cn: 1\n\n\n"),
        text[:60],
    ):
        ldif.write_text(changed)
        with pytest.raises(ConfigError, match="was changed above line 10"):
            state(ldif)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 3, "progress": {}}', '{"format": 1}']
)
def test_a_damaged_state_is_told(ldif: Path, content: str) -> None:
    with state(ldif):
        pass
    ldif.with_name("rejects.state").write_text(content)
    with pytest.raises(ConfigError, match="cannot be used") as error:
        state(ldif)
    assert error.value.hint == "--restart begins from the start"


def test_rejects_are_their_owners_alone(ldif: Path) -> None:
    rejects, other = ldif.with_name("rejects"), ldif.with_name("other")
    other.write_text("kept")
    rejects.symlink_to(other)
    with state(ldif) as one:
        settle(one, ldif, [REJECTED])
        one.save(0.0, [])
    assert stat.S_IMODE(rejects.lstat().st_mode) == 0o600
    rejects.rename(other)
    rejects.symlink_to(other)
    with pytest.raises(ConfigError, match="cannot be kept"), state(ldif):
        pass


def test_a_new_load_takes_old_rejects_out_of_the_way(ldif: Path) -> None:
    rejects = ldif.with_name("rejects")
    rejects.write_text("of long ago")
    with state(ldif) as one:
        settle(one, ldif, [ADDED])
    assert not rejects.exists()
    assert one.kept is not None
    assert one.kept.read_text() == "of long ago"


def test_a_folder_that_takes_no_files_is_told(ldif: Path) -> None:
    one = LoadState(ldif, URI, Path("/proc/none/rejects"), restart=False)
    with pytest.raises(ConfigError, match="cannot be kept in '/proc/none'"), one:
        pass


def test_only_what_was_sent_may_be_there(ldif: Path) -> None:
    with state(ldif) as one:
        first, second, third, *_ = read(ldif, one.progress)
        one.save(0.0, [first, third])
    # what was mended and what moved; but not what is another now
    ldif.write_text(ldif.read_text().replace("cn: 1\n", "cn: 1\nsn: mended\n"))
    with state(ldif) as two:
        was_sent = [two.take_sent(record) for record in read(ldif, two.progress)]
        assert was_sent == [True, False, True, False, False, False]
        # another one like it was not
        assert not two.take_sent(first)
        two.save(0.0, [second])
    three = state(ldif)
    taken = [three.take_sent(record) for record in (first, second, third)]
    assert taken == [False, True, False]


def test_the_state_is_a_json_document(ldif: Path) -> None:
    with state(ldif):
        pass
    document = json.loads(ldif.with_name("rejects.state").read_text())
    assert document["uri"] == URI
    assert document["ldif"] == str(ldif)


def test_rejects_of_an_earlier_load_are_kept(ldif: Path) -> None:
    rejects = ldif.with_name("rejects")
    for number in range(3):
        with state(ldif) as one:
            settle(one, ldif, [REJECTED] * (number + 1))
            one.finish(0.0)
    assert one.kept == ldif.with_name("rejects.2")
    found = [rejects, ldif.with_name("rejects.1"), ldif.with_name("rejects.2")]
    assert [len(list(ldif_entries(path))) for path in found] == [3, 1, 2]


def test_rejects_of_entries_that_are_sent_again_are_not_kept(ldif: Path) -> None:
    with state(ldif) as one:
        one.save(0.0, [])
        settle(one, ldif, [REJECTED])
    with state(ldif) as two:
        assert two.is_resumed
        assert two.kept is None
        settle(two, ldif, [REJECTED])
        two.finish(0.0)
    assert not ldif.with_name("rejects.1").exists()


def test_rejects_are_a_file(ldif: Path) -> None:
    ldif.with_name("rejects").mkdir()
    with pytest.raises(ConfigError, match="is no file"), state(ldif):
        pass
