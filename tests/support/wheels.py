# SPDX-License-Identifier: Apache-2.0
"""A small distribution as if installed from a wheel, in site-packages of its own."""

from __future__ import annotations

import base64
import hashlib
from importlib.metadata import PathDistribution
from pathlib import Path

CONTENT = "answer = 42\n"


def fake_distribution(
    folder: Path, tag: str = "py2.py3-none-any", source: str = ""
) -> PathDistribution:
    """some-thing 1.5: one module and its bytecode; `source` is its direct_url.json."""
    info = folder / "site-packages" / "some_thing-1.5.dist-info"
    info.mkdir(parents=True)
    notes = {
        "METADATA": "Metadata-Version: 2.1\nName: some-thing\nVersion: 1.5\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        "INSTALLER": "pip\n",
        "direct_url.json": source or "{}",
    }
    for name, text in notes.items():
        (info / name).write_text(text)
    (info.parent / "some.py").write_text(CONTENT)
    (info.parent / "some.pyc").write_text("bytecode")
    digest = base64.urlsafe_b64encode(hashlib.sha256(CONTENT.encode()).digest())
    rows = [
        f"some.py,sha256={digest.decode().rstrip('=')},{len(CONTENT)}",
        *(f"{name},," for name in ("some.pyc", f"{info.name}/RECORD")),
        *(f"{info.name}/{name},," for name in notes),
    ]
    (info / "RECORD").write_text("\n".join(rows))
    return PathDistribution(info)
