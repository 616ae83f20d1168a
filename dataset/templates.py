# SPDX-License-Identifier: Apache-2.0
"""Template files: the user's own, and the ready ones of configs/data by their names."""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean

_SUFFIX = ".template"


def ready_templates() -> dict[str, Path]:
    """The ready templates by name."""
    folder = _folder()
    return {path.stem: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}


def names_file(which: str) -> Path:
    """The bundled file of `first` or `last` names."""
    return _folder() / f"{which}.names"


def find_template(name: str) -> tuple[str, str]:
    """The path and the text of a template file, or of a ready template.

    ConfigError where there is none, or it is no text.
    """
    path = Path(name)
    if not path.exists():
        ready = ready_templates()
        if name not in ready:
            raise ConfigError(
                f"there is no template file {name!r}",
                hint=did_you_mean(name, ready, "ready templates"),
            )
        path = ready[name]
    try:
        return str(path), path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"template file {name!r} cannot be read: {error}",
            hint="name a file of text in UTF-8",
        ) from None


def _folder() -> Path:
    return Path(str(importlib.resources.files("ldapslam.configs") / "data"))
