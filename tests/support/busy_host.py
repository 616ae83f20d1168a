# SPDX-License-Identifier: Apache-2.0
"""Limits for jobs of tests that are not about the generator: other tests take their
share of the host, and no verdict may depend on it.
"""

from __future__ import annotations

import json
from typing import Final

LIMITS: Final = {
    "send_lag_p99": "60s",
    "loop_share": "100%",
    "stall": "60s",
    "busy_share": "100%",
    "run_queue_share": "100%",
    "disturbed_intervals": "100%",
}
#: Part of a job file. It has no braces, so templates may hold it.
VALIDITY: Final = "validity:\n" + "".join(f"  {a}: {b}\n" for a, b in LIMITS.items())
#: What `--set` takes.
SETTING: Final = f"validity={json.dumps(LIMITS)}"
