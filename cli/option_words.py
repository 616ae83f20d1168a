# SPDX-License-Identifier: Apache-2.0
"""Hints of errors that speak of keys of a job file, for commands that take options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ldapslam.base.errors import LdapSlamError

_WORDS = (
    ("the password that `bind.password` names", "the password of -y or --password-env"),
    ("without `bind` in the job", "without -D"),
    ("`bind.dn`", "-D"),
    ("`tls.ca_file`", "--ca-file"),
    ("`tls: {start_tls: true}`", "-Z"),
    ("in `targets`", "in the URI"),
)


@contextmanager
def in_words_of_options() -> Iterator[None]:
    """Within, a hint names the options that stand for what it speaks of."""
    try:
        yield
    except LdapSlamError as error:
        for key, option in _WORDS:
            error.hint = error.hint and error.hint.replace(key, option)
        raise
