# SPDX-License-Identifier: Apache-2.0
"""What the design says of the source itself, held on every file of the repository.

The direction of imports, and that there are no circles, is import-linter's
(pyproject.toml); this file has the rest.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
PACKAGES = tuple(sorted(path.parent.name for path in ROOT.glob("*/__init__.py")))
#: The folders of modules; that of configurations has only files.
ROOMS = tuple(package for package in PACKAGES if package != "configs")


def sources(*patterns: str, folders: tuple[str, ...] = PACKAGES) -> list[Path]:
    """Files that people write: no generated code."""
    return sorted(
        path
        for folder in folders
        for pattern in patterns
        for path in (ROOT / folder).rglob(pattern)
        if "_pb2" not in path.name
    )


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


PYTHON = sources("*.py")
TESTS = sources("*.py", folders=("tests", "benchmarks"))
C = sources("*.[ch]", folders=("agent", "benchmarks"))


@functools.cache
def module(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(module(path)))


def imports(path: Path) -> Iterator[str]:
    """Top-level names of everything that a module imports, at any depth."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def calls(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every function or method called."""
    for node in nodes(path):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Name):
                yield node.lineno, function.id
            elif isinstance(function, ast.Attribute):
                yield node.lineno, function.attr


def including(header: str) -> set[str]:
    pattern = re.compile(rf'^\s*#\s*include\s*[<"]{header}[>"]', re.MULTILINE)
    return {name(path) for path in C if pattern.search(path.read_text())}


def importing(module: str) -> set[str]:
    return {name(path) for path in PYTHON if module in imports(path)}


#: A header, and the files that may include it.
HEADERS = {
    r"Python\.h": {
        "agent/csrc/python/columns_module.c",
        "agent/csrc/python/objects.h",
    },
    r"(ldap|lber)\.h": {"agent/csrc/ldap/transport.c"},
}
#: A foreign package, and the modules that may import it.
FOREIGN = {
    "grpc": {
        "coordinator/server.py",
        "transport/codec.py",
        "transport/credentials.py",
    },
    "matplotlib": {"reports/charts/charts.py"},
}


def test_a_foreign_interface_has_one_door() -> None:
    assert {header: including(header) for header in HEADERS} == HEADERS
    assert {package: importing(package) for package in FOREIGN} == FOREIGN
    users = including(r"python/\w+\.h")
    assert {Path(user).parent.as_posix() for user in users} == {"agent/csrc/python"}


def test_json_of_others_is_read_where_deep_nesting_is_a_fault() -> None:
    pattern = re.compile(r"\bjson\.loads?\b")
    users = [name(path) for path in PYTHON if pattern.search(path.read_text())]
    assert users == ["base/inert.py"]


def test_the_engines_process_is_all_that_imports_the_engine() -> None:
    pattern = re.compile(r"(import|from) ldapslam\.agent\._engine|agent\._engine\"")
    users = {name(path) for path in PYTHON if pattern.search(path.read_text())}
    assert users <= {
        "agent/engine/process.py",
        "agent/engine/setup.py",
        "agent/python_jobs/client.py",
        "agent/python_jobs/fork_client.py",
        "agent/python_jobs/host.py",
        "agent/python_jobs/job.py",
        "cli/measure/check_samples.py",
        "cli/measure/generator.py",
        "cli/measure/responder_process.py",
        "dataset/generate.py",
    }


def test_every_source_begins_with_its_licence_and_what_it_is_for() -> None:
    missing = []
    for path in PYTHON + TESTS + C + sources("*.proto"):
        text = path.read_text()
        if "SPDX-License-Identifier: Apache-2.0" not in text.partition("\n")[0]:
            missing.append(f"{name(path)}: SPDX line")
        if path.suffix == ".py" and not re.match(r'(#.*\n)+r?"""', text):
            # an empty package file has nothing to explain
            if path.name != "__init__.py" or len(text.splitlines()) > 1:
                missing.append(f"{name(path)}: docstring")
    assert missing == []


def identifiers(path: Path) -> Iterator[str]:
    text = path.read_text()
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                yield token.string
        return
    without_comments = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    yield from re.findall(r"[A-Za-z_]\w*", without_comments)


def test_no_identifier_says_latency_because_it_hides_which_time_is_meant() -> None:
    found = {
        f"{name(path)}: {identifier}"
        for path in PYTHON + TESTS + C + sources("*.proto")
        if "latency" in path.read_text().lower() and path != Path(__file__).resolve()
        for identifier in identifiers(path)
        if "latency" in identifier.lower()
    }
    assert found == set()


def test_unit_tests_do_not_sleep() -> None:
    found = [
        f"{name(path)}:{line}"
        for path in sources("*.py", folders=("tests/unit",))
        for line, function in calls(path)
        if function == "sleep"
    ]
    assert found == []


def test_only_the_command_line_prints_or_exits() -> None:
    programs = (
        "cli/",
        "proto/generate.py",
    )
    found = [
        f"{name(path)}:{line}: {function}"
        for path in PYTHON
        if not name(path).startswith(programs)
        for line, function in calls(path)
        if function in ("print", "exit")
    ]
    assert found == []


def test_tests_are_no_package() -> None:
    # pytest would put the root on sys.path, and `import agent` would work by mistake
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_every_package_is_installed_and_banned_under_its_bare_name() -> None:
    installed = PROJECT["scikit-build"]["wheel"]["packages"]
    parts = ("__init__.py", "py.typed", *PACKAGES)
    assert installed == {f"ldapslam/{part}": part for part in parts}
    banned = PROJECT["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert set(banned) == set(PACKAGES)


def test_importing_the_package_imports_nothing_else() -> None:
    # what the loader of an editable installation imports comes first
    program = (
        "import importlib.machinery, importlib.util, sys; before = {*sys.modules}; "
        "import ldapslam; print(ldapslam.__version__, *({*sys.modules} - before))"
    )
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [version("ldapslam"), "ldapslam"]


def folders() -> Iterator[Path]:
    """Every folder of Python modules, the rooms first."""
    for path in PYTHON:
        if path.name == "__init__.py":
            yield path.parent


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def room_of(module: str) -> str:
    return module.removeprefix("ldapslam.").partition(".")[0]


def test_every_folder_says_in_a_sentence_what_it_is_for() -> None:
    silent = [
        name(folder)
        for folder in folders()
        if not ast.get_docstring(module(folder / "__init__.py"))
    ]
    assert silent == []


def test_no_folder_is_a_heap() -> None:
    # about fifteen: more hides the right one
    counts = {name(folder): len(list(folder.glob("*.py"))) - 1 for folder in folders()}
    assert {folder: count for folder, count in counts.items() if count > 18} == {}


def test_no_module_is_named_by_string_across_rooms() -> None:
    # such an arrow is an import that import-linter cannot see; built-in job types come
    # by the entry points that third parties use
    modules = {f"ldapslam.{module_of(path)}" for path in PYTHON}
    found = [
        f"{name(path)}:{node.lineno}: {node.value}"
        for path in PYTHON
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.partition(":")[0] in modules
        if room_of(node.value) != room_of(module_of(path))
    ]
    assert found == []


def arrows() -> dict[str, set[str]]:
    """The rooms that each room imports."""
    imported: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in PYTHON:
        room = room_of(module_of(path))
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            for imported_name in names:
                top, _, rest = imported_name.partition(".")
                if top == "ldapslam" and room_of(rest) not in ("configs", room):
                    imported.setdefault(room, set()).add(room_of(rest))
    return imported


def drawing() -> str:
    """Rooms from the top down, as docs/dev/architecture.md draws them."""
    contracts = PROJECT["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    imported = arrows()
    order = [room_of(room.strip()) for layer in layers for room in layer.split("|")]
    assert set(order) == set(ROOMS)
    return "\n".join(
        f"    {room:12} → {' '.join(r for r in order if r in imported[room])}".rstrip(
            " →"
        )
        for room in order
    )


def test_the_drawing_of_rooms_is_that_of_the_imports() -> None:
    expected = drawing()
    assert expected in (ROOT / "docs" / "dev" / "architecture.md").read_text(), expected


def test_every_file_that_the_architecture_names_is_there() -> None:
    text = (ROOT / "docs" / "dev" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+/[\w.]+\.(?:py|c|h|proto))`", text))
    bases = (ROOT, ROOT / "agent" / "csrc")
    assert named
    assert {
        path for path in named if not any((base / path).is_file() for base in bases)
    } == set()
