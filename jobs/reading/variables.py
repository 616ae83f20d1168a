# SPDX-License-Identifier: Apache-2.0
"""Variables of a job file: `vars` has their defaults, `${name}` in any value uses them.

Happens on the raw tree, after overrides and before types, so that everything behind it
sees plain values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ldapslam.base.fault import Fault, expected, unknown
from ldapslam.jobs.reading.tree import Finding, Path, Tree, read_tree

KEY = "vars"

_REFERENCE = re.compile(r"\$(\$\{|\{([^{}]*)\})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")

Value = int | float | str | bool
Values = Mapping[str, Value]


def replace_variables(tree: Tree, defaults: Values) -> Values | None:
    """Write values in place of references, take `vars` away and return the values; None
    without all of them. Findings say why. `defaults` are those before overrides."""
    if KEY not in tree.data:
        return {}
    before = len(tree.findings)
    values: dict[str, Value] = {}
    for name, raw in _section(tree).items():
        try:
            values[name] = _value(name, raw, defaults, values)
        except Fault as fault:
            # a reference to it is not a second fault
            values[name] = defaults.get(name) or 0
            tree.findings.append(Finding((KEY, name), fault))
    has_all = len(tree.findings) == before
    rest = {key: value for key, value in tree.data.items() if key != KEY}
    tree.data = _replaced(tree, (), rest, values)
    return values if has_all else None


def defaults_of(tree: Tree) -> Values:
    """The defaults as they are written."""
    return dict(_section(tree))


def override_of(name: str, text: str) -> str:
    """The override that gives a variable a value."""
    return f"{KEY}.{name}={json.dumps(text, ensure_ascii=False)}"


def referenced(text: str) -> frozenset[str]:
    """Names that stand in references of a text."""
    return frozenset(match[2] for match in _REFERENCE.finditer(text) if match[2])


def _section(tree: Tree) -> Mapping[str, Any]:
    section = tree.data.get(KEY) if isinstance(tree.data, dict) else None
    if isinstance(section, dict):
        return section
    if section is not None:
        fault = expected("names and their defaults", section, "vars: {users: 1000}")
        tree.findings.append(Finding((KEY,), fault))
    return {}


def _value(name: str, raw: Any, defaults: Values, above: Values) -> Any:
    if name not in defaults:
        raise unknown("variable", name, defaults)
    default: Any = defaults[name]
    if not _NAME.fullmatch(name):
        raise expected("a name", name, "letters, digits and _, not first a digit")
    if raw is None:
        raise Fault(f"the variable {name!r} has no value", f"--var {name}=VALUE")
    if isinstance(default, str) and "${" in default:
        default = None  # its type is that of what it comes to
    if isinstance(raw, str):
        raw = _text(raw, above)
    if not isinstance(raw, (int, float, str)):
        raise expected("a text, a number, true or false", raw)
    if isinstance(default, str):
        return _as_text(raw)
    given = read_tree(raw, "").data if isinstance(raw, str) else raw
    if default is None:
        return given if isinstance(given, (int, float)) else raw
    if type(given) is type(default):
        return given
    if isinstance(default, float) and type(given) is int:
        return float(given)
    wanted = {int: "a whole number", float: "a number", bool: "true or false"}
    hint = f"the default of {name!r} is {_as_text(default)}"
    raise expected(wanted[type(default)], raw, hint)


def _replaced(tree: Tree, path: Path, value: Any, values: Values) -> Any:
    if isinstance(value, dict):
        return {
            key: _replaced(tree, (*path, key), one, values)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [
            _replaced(tree, (*path, index), one, values)
            for index, one in enumerate(value)
        ]
    if not isinstance(value, str):
        return value
    try:
        return _text(value, values)
    except Fault as fault:
        tree.findings.append(Finding(path, fault))
        return value


def _text(text: str, values: Values) -> Value:
    """The text with values in place of references; one alone keeps its type."""
    whole = _REFERENCE.fullmatch(text)
    if whole and whole[2] is not None:
        return _variable(whole[2], values)
    return _REFERENCE.sub(
        lambda match: (
            "${" if match[2] is None else _as_text(_variable(match[2], values))
        ),
        text,
    )


def _as_text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _variable(name: str, values: Values) -> Value:
    if name in values:
        return values[name]
    if _NAME.fullmatch(name):
        raise unknown("variable", name, values)
    hint = "write its name alone, such as [0..${users}); ${ itself is $${"
    raise expected("a variable", f"${{{name}}}", hint)
