# SPDX-License-Identifier: Apache-2.0
"""Where entries are read from: a server, a file of LDIF, a template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import click
import ldap

from ldapslam.dataset.generate import Generation
from ldapslam.dataset.local_tree import ldif_tree, template_tree
from ldapslam.dataset.templates import ready_templates
from ldapslam.directory.access import connect
from ldapslam.directory.comparison import Tree
from ldapslam.directory.tree import DirectoryTree
from ldapslam.jobs.connection_settings import ConnectionSettings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def template_options(seed_is_also_of: str = "") -> Callable[[_Command], _Command]:
    """`--entries` and `--seed`, which say what a template makes."""
    also = f" Also of {seed_is_also_of}." if seed_is_also_of else ""

    def decorate(command: _Command) -> _Command:
        command = click.option(
            "--seed",
            metavar="N",
            type=click.IntRange(0, 2**63 - 1),
            default=1,
            show_default=True,
            help=f"Of a template: as of `data generate`.{also}",
        )(command)
        return click.option(
            *("-n", "--entries"),
            metavar="N",
            type=click.IntRange(min=0),
            help="Of a template: as of `data generate`.",
        )(command)

    return decorate


@contextmanager
def source_tree(
    source: str,
    given: dict[str, Any],
    access_of: Callable[[str, dict[str, Any]], ConnectionSettings],
) -> Iterator[tuple[Tree, str]]:
    """The tree of a server, a file or a template, with its base: where none is given,
    the server's naming context, or the first entry. `given` has the command's options,
    of which `access_of` says how to come to a server."""
    if "://" not in source:
        yield _local_tree(source, given["base"], given["entries"], given["seed"])
        return
    with connected(source, access_of(source, given)) as connection:
        base = given["base"]
        base = _naming_context(connection, source) if base is None else base
        yield DirectoryTree(connection, source, base), base


def _local_tree(
    source: str, base: str | None, entries: int | None, seed: int
) -> tuple[Tree, str]:
    path = Path(source)
    is_template = path.suffix == ".template" or (
        not path.exists() and source in ready_templates()
    )
    if is_template:
        wanted = Generation(source, entries=entries, seed=seed)
        tree = template_tree(wanted, base or "")
    elif entries is not None:
        raise click.UsageError("-n is for a template")
    else:
        tree = ldif_tree(path, base or "")
    return tree.below_first() if base is None else (tree, base)


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
