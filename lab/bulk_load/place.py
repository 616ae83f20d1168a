# SPDX-License-Identifier: Apache-2.0
"""The client of place_process.py: a place that an operator's program prepares.

That process gives the place back, however this one ends.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.offline import ImportStopped

_LOOK_S = 0.1
#: After its last word.
_END_S = 10.0


class _HookFailed(Exception):
    """The process has told so, and ends."""


@contextmanager
def prepared_place(
    hook: Sequence[str], is_stopping: Callable[[], bool]
) -> Iterator[Path]:
    """The folder that the program prepared and printed, until the end of the block.
    ConfigError, ImportStopped."""
    script = Path(__file__).with_name("place_process.py")
    process = subprocess.Popen(
        [sys.executable, "-I", str(script), *hook],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout:
        try:
            with process.stdin:
                yield Path(_answer(process, is_stopping)["folder"])
            _answer(process, is_stopping)
        except _HookFailed as error:
            process.wait(_END_S)
            raise ConfigError(
                str(error), hint="try it by hand, as the agent's user"
            ) from None
        except BaseException:
            # It goes on alone. Popen would complain of a child that is not waited for.
            process.returncode = 0
            raise
        process.wait(_END_S)


def _answer(
    process: subprocess.Popen[bytes], is_stopping: Callable[[], bool]
) -> dict[str, Any]:
    assert process.stdout is not None
    while not select.select([process.stdout], [], [], _LOOK_S)[0]:
        if is_stopping():
            raise ImportStopped
    line = process.stdout.readline()
    if not line:
        raise _HookFailed(
            "the process that prepares the place and gives it back was killed: the "
            "place may be left as it is"
        )
    reply: dict[str, Any] = json.loads(line)
    if "error" in reply:
        raise _HookFailed(reply["error"])
    return reply
