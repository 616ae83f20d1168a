# SPDX-License-Identifier: Apache-2.0
"""The canned responder in a process of its own, for `check --generator`.

    python -m ldapslam.cli.measure.responder_process

Prints its URI and answers until its standard input ends, so that it never outlives the
process that started it.
"""

from __future__ import annotations

import sys

from ldapslam.agent._engine import Responder


def main() -> None:
    responder = Responder()
    responder.start()
    try:
        sys.stdout.write(f"{responder.uri}\n")
        sys.stdout.flush()
        sys.stdin.read()
    finally:
        responder.stop()


if __name__ == "__main__":
    main()
