# SPDX-License-Identifier: Apache-2.0
"""What a long run costs: the coordinator's memory, the store, the time of its report.

python benchmarks/endurance.py [--intervals 43200] [--out DIR]

The same program as tests/chaos/test_endurance.py, without limits: it prints the figures
that docs/explanation/statistics.md has. Best on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

# the agents that send it are the tests'
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.endurance import AGENTS, run_endurance
from support.fleet import FleetOfProcesses

MB = 1_000_000


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--intervals", type=int, default=43_200)
    parser.add_argument("--out", type=Path, help="where the report goes")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ldapslam-endurance-") as folder:
        fleet = FleetOfProcesses()
        try:
            seen = run_endurance(
                fleet,
                chosen.intervals,
                chosen.out or Path(folder),
                lambda line: print(line, file=sys.stderr),
            )
        finally:
            fleet.close()
    summary = seen.summary
    assert summary is not None
    rows = (
        ("intervals of 1 s", f"{seen.intervals:,} of {len(AGENTS)} agents"),
        ("reports taken in", f"{seen.reports_per_s:,.0f}/s"),
        ("coordinator's memory, at most", f"{seen.most_bytes / MB:,.0f} MB"),
        ("its growth in 10,000 intervals", f"{seen.slope_bytes / MB:,.2f} MB"),
        ("store", f"{seen.store_bytes / MB:,.0f} MB"),
        ("store, by agent and interval", f"{seen.bytes_per_interval:,.0f} bytes"),
        ("summary", f"{seen.summary_s:,.1f} s"),
        ("summary, HTML, PDF and text", f"{seen.report_s:,.1f} s"),
        *((name, f"{size / MB:,.2f} MB") for name, size in seen.files.items()),
        ("requests in the report", f"{sum(seen.sent.values()):,}"),
    )
    for name, value in rows:
        print(f"{name:<34} {value}")


if __name__ == "__main__":
    main()
