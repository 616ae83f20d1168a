# SPDX-License-Identifier: Apache-2.0
"""Texts that may be shown: the passwords of their URLs masked.

A second line of defence, for texts that come from elsewhere, such as another library's
error. Secrets themselves are references and have no way into a text.
"""

from __future__ import annotations

import re

# The password of scheme://user:password@host, also one with an unescaped `@`, and that
# of `?password=…`; what follows `password=` in braces is a reference to one.
_PASSWORD = re.compile(
    r"(?<=://)([^:/@\s]*):[^@\n]*(?:@[^@/\s]*)*@"
    r"|(password=)(?!\{)[^&\s]+",
    re.IGNORECASE,
)


def without_passwords(text: str) -> str:
    """A text, such as an argument, with the passwords of its URLs masked."""
    return _PASSWORD.sub(
        lambda found: f"{found[2]}***" if found[2] else f"{found[1]}:***@", text
    )
