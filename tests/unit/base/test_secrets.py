# SPDX-License-Identifier: Apache-2.0
"""References to secrets, and what they resolve to."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.secrets import SecretRef


def test_environment_variable_is_taken_as_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LDAP_PASSWORD", "geheim ü\n")
    assert SecretRef(env="LDAP_PASSWORD").resolve() == "geheim ü\n".encode()


@pytest.mark.parametrize(
    ("content", "secret"),
    [
        (b"secret", b"secret"),
        (b"secret\n", b"secret"),
        (b"secret\r\n", b"secret"),
        (b"secret\n\n", b"secret\n"),
        (b" secret ", b" secret "),
    ],
)
def test_file_is_taken_without_its_line_end(
    tmp_path: Path, content: bytes, secret: bytes
) -> None:
    path = tmp_path / "password"
    path.write_bytes(content)
    assert SecretRef(file=str(path)).resolve() == secret


def test_missing_variable_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LDAP_PASSWORD", raising=False)
    with pytest.raises(ConfigError, match=r"\{env: LDAP_PASSWORD\} is not set") as said:
        SecretRef(env="LDAP_PASSWORD").resolve()
    assert "export LDAP_PASSWORD in this shell" in str(said.value.hint)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"x" * 5000, "longer than 4096 bytes"),
    ],
)
def test_file_that_is_no_password_is_an_error(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said) as caught:
        SecretRef(file=str(path)).resolve()
    assert "xxx" not in str(caught.value)
