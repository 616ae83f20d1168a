# SPDX-License-Identifier: Apache-2.0
"""Sources of entries (a server, an LDIF file, a template), and connection options.

The options become a job, which is checked and planned as any job is, so that a data
command connects as an agent would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import ldap

from ldapslam.base.fault import got
from ldapslam.cli.measure.quick_options import compose_head, connection_options
from ldapslam.cli.options import add_options, option
from ldapslam.dataset.generate import Generation, example_templates
from ldapslam.dataset.local_tree import ldif_tree, template_tree
from ldapslam.directory.access import connect
from ldapslam.directory.comparison import Tree
from ldapslam.directory.tree import DirectoryTree
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.plan import agent_plan

#: The options of a command that reads entries from anywhere.
source_options = add_options(
    connection_options,
    option(
        "-b --base DN",
        "Top of the tree. When left out: the first entry of a file, the naming "
        "context of a server that has one.",
    ),
    option(
        "--entries N",
        "With a template: as in `data generate`.",
        type=click.IntRange(min=0),
    ),
    option(
        "--seed N",
        "With a template: as in `data generate`. Also of `data verify --sample`.",
        type=click.IntRange(0, 2**63 - 1),
        default=1,
    ),
    option(
        "--ignore ignored NAME",
        "An attribute to leave out, such as one that jobs modify. Repeatable.",
        multiple=True,
    ),
)


@contextmanager
def source_tree(
    source: str,
    given: dict[str, Any],
    access_of: Callable[[str, dict[str, Any]], ConnectionSettings],
) -> Iterator[tuple[Tree, str]]:
    """The tree of a server, a file or a template, with its base.

    The default base is the server's naming context, or the first entry. `given` has the
    command's options; `access_of` makes a server's connection settings of them.
    """
    if "://" not in source:
        yield _local_tree(source, given["base"], given["entries"], given["seed"])
        return
    with connected(source, access_of(source, given)) as connection:
        base = given["base"]
        if base is None:
            base = _naming_context(connection, source)
        yield DirectoryTree(connection, source, base), base


def _local_tree(
    source: str, base: str | None, entries: int | None, seed: int
) -> tuple[Tree, str]:
    path = Path(source)
    is_template = path.suffix == ".template" or (
        not path.exists() and source in example_templates()
    )
    if is_template:
        wanted = Generation(source, entries=entries, seed=seed)
        tree = template_tree(wanted, base or "")
    elif entries is not None:
        raise click.UsageError("--entries is for a template")
    else:
        tree = ldif_tree(path, base or "")
    return tree.below_first() if base is None else (tree, base)


def check_uri(uri: str | None) -> None:
    """UsageError for what is not a URI."""
    if uri is None:
        raise click.UsageError("give a URI too, such as ldap://ds1.example.com")
    if "://" not in uri:
        raise click.UsageError(
            f"expected a URI such as ldap://ds1.example.com, got {got(uri)}"
        )


@contextmanager
def connected(uri: str, access: ConnectionSettings) -> Iterator[Any]:
    """A connection to read with."""
    connection = connect(uri, access)
    try:
        yield connection
    finally:
        with suppress(ldap.LDAPError):
            connection.unbind_s()


def _naming_context(connection: Any, uri: str) -> str:
    """The one naming context of a server."""
    found: list[bytes] = []
    with suppress(ldap.LDAPError):
        root = connection.read_s("", attrlist=["namingContexts"])
        found = root.get("namingContexts", [])
    contexts = [value.decode(errors="replace") for value in found]
    if len(contexts) != 1:
        raise click.UsageError(
            f"-b is needed: {uri} has the naming contexts "
            f"{', '.join(contexts) or '(it tells none)'}"
        )
    return contexts[0]


#: A job needs a stream; its requests are never sent.
_STREAM = {
    "name": "access",
    "target": "directory",
    "load": {"clients": 1},
    "operations": [{"search": {"base": "", "scope": "base"}}],
}


def directory_access(uri: str, given: Mapping[str, Any]) -> ConnectionSettings:
    """The settings that `connection_options` describe, with the password; JobErrors,
    ConfigError."""
    job = compose_head("access", [uri], dict(given), "URI")
    job.put(("run", "duration"), "1s", "")
    job.put(("streams", 0), _STREAM, "")
    return agent_plan(job.load(), 0, 1, 0).streams[0].connection.resolved()
