# SPDX-License-Identifier: Apache-2.0
"""Classes for streams with a `python`: one that works, and some that do not."""

from __future__ import annotations

import os
import signal
import time

import ldap

from ldapslam.agent.python_jobs.job import Client, PythonJob, RunStopped

#: Attributes that the searches below ask for.
_ATTRIBUTES = ["cn"]


class Lookups(PythonJob):
    """Finds an entry, misses another."""

    operations = ("find", "miss")

    def run(self, client: Client) -> None:
        base = self.options["base"]
        number = client.random.randrange(1_000)
        with client.operation("find"):
            client.connection.search_ext_s(
                base, ldap.SCOPE_SUBTREE, f"(uid=user.{number})", _ATTRIBUTES
            )
        with client.operation("miss", expect=[32]):
            client.connection.search_ext_s(f"ou=nowhere,{base}", ldap.SCOPE_BASE)
        raise AssertionError("a failed operation ends the session")


class RaisesInSetUp(Lookups):
    def set_up(self, client: Client) -> None:
        raise KeyError("cannot")


class RaisesInRun(Lookups):
    def run(self, client: Client) -> None:
        raise ValueError("not within an operation")


class Forks(Lookups):
    def set_up(self, client: Client) -> None:
        os.fork()


class Dies(Lookups):
    def set_up(self, client: Client) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Nests(Lookups):
    def run(self, client: Client) -> None:
        with client.operation("find"), client.operation("miss"):
            pass


class RecordsOther(Lookups):
    def run(self, client: Client) -> None:
        with client.operation("other"):
            pass


class Hangs(Lookups):
    """Once its first request is under way."""

    def run(self, client: Client) -> None:
        with client.operation("find"):
            time.sleep(3_600)


class Works(Lookups):
    """Works 2 ms of CPU for each search, so that few clients are too many."""

    def run(self, client: Client) -> None:
        end_ns = time.thread_time_ns() + 2_000_000
        while time.thread_time_ns() < end_ns:
            pass
        with client.operation("find"):
            client.connection.search_ext_s(self.options["base"], ldap.SCOPE_BASE)


class Probe(PythonJob):
    """One search, and nothing else."""

    operations = ("find",)

    def run(self, client: Client) -> None:
        with client.operation("find"):
            client.connection.search_ext_s("dc=example", ldap.SCOPE_BASE)


class NoJob:
    operations = ("find", "miss")


class Resigns(Lookups):
    """Takes itself for stopped after its first search."""

    def run(self, client: Client) -> None:
        with client.operation("find"):
            client.connection.search_ext_s(self.options["base"], ldap.SCOPE_BASE)
        raise RunStopped
