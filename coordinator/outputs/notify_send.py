# SPDX-License-Identifier: Apache-2.0
"""The process that sends one notification, or checks channels' URLs.

Only this process loads apprise: what its plug-ins do ends with it.
"""

from __future__ import annotations

import logging
import re
from typing import Any
from urllib.parse import unquote

from ldapslam.base.child import answer, command_of

COMMAND = command_of(__name__)

_MAX_REASON = 300


def work(question: dict[str, Any]) -> dict[str, Any]:
    """Answers `check` (name -> URL) with the names that apprise cannot use; else
    sends."""
    import apprise

    # its warnings go into the answer, without the URL's secrets
    logging.getLogger("apprise").propagate = False
    if "check" in question:
        return {
            "unusable": [
                name
                for name, url in question["check"].items()
                if not apprise.Apprise().add(url)
            ]
        }
    url = question["url"]
    channel = apprise.Apprise()
    if not channel.add(url):
        return {"why": "its URL cannot be used"}
    capture = apprise.LogCapture(  # type: ignore[no-untyped-call]
        level=logging.WARNING, fmt="%(message)s"
    )
    with capture as log:
        if channel.notify(
            title=question["title"],
            body=question["body"],
            notify_type=question["type"],
            body_format=apprise.NotifyFormat.TEXT,
        ):
            return {}
        said = " ".join(log.getvalue().split())
    return {"why": without_secrets(said, url)[:_MAX_REASON] or "it was not taken"}


#: Shorter parts are left out as whole words only.
_SHORT = 6


def without_secrets(text: str, url: str) -> str:
    """The text without any part of the URL: a token may be its host."""
    pieces = re.split(r"[/?&=;,:@#]", url.partition("://")[2])
    for piece in sorted({*pieces, *map(unquote, pieces)}, key=len, reverse=True):
        if piece:
            found = re.escape(piece)
            if len(piece) < _SHORT:
                found = rf"(?<!\w){found}(?!\w)"
            text = re.sub(found, "…", text, flags=re.IGNORECASE)
    return text


if __name__ == "__main__":
    answer(work)
