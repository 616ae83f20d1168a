# SPDX-License-Identifier: Apache-2.0
"""The entry point: finds the command, runs it, turns its end into an exit code.

An LdapSlamError is printed with its hint; any other exception is a defect
of ours: its trace goes to a file that the message names.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import get_completion_class

from ldapslam import __version__
from ldapslam.base.errors import EXIT_CODE_MEANING, ConfigError, ExitCode, LdapSlamError
from ldapslam.base.log_format import is_json, without_passwords
from ldapslam.cli.command_tree import COMMANDS, Commands
from ldapslam.cli.console import (
    Invocation,
    announce,
    complain,
    error_document,
    exit_code_of,
    put,
    put_json,
    put_result,
)

# Read when gRPC is loaded, with the first command that needs it: its core would print
# lines of its own, about failed handshakes among others.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# numpy's BLAS, which nothing here uses, would start threads when it is loaded, and a
# process with threads must not fork.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
# pydantic would search all installed packages for plugins, which nothing here uses.
os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
# Modules stay: looking for garbage among them takes a tenth of the time to load them.
gc.set_threshold(50_000)


class _Root(Commands):
    """`ldapslam` itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `help COMMAND` as `COMMAND --help`, and `version` as `--version`."""
        _, words, _ = self.make_parser(ctx).parse_args(list(args))
        options = args[: len(args) - len(words)]
        if words[:1] == ["help"]:
            args = [*options, *words[1:], "--help"]
        elif words[:1] == ["version"]:
            args = [*options, "--version", *words[1:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.entries and Path(args[0]).is_file():
            hint = f"did you mean `ldapslam run {args[0]}`?"
            raise click.UsageError(f"no command {args[0]!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)


def _exit_codes() -> str:
    lines = (f"{code:>5}  {text}" for code, text in EXIT_CODE_MEANING.items())
    return "\b\nExit codes:\n" + "\n".join(lines)


def _print_completion(
    context: click.Context, _: click.Parameter, shell: str | None
) -> None:
    """Print a script, for `eval "$(ldapslam --completion bash)"`."""
    if shell is None or context.resilient_parsing:
        return
    completion_class = get_completion_class(shell)
    assert completion_class is not None, f"click knows {shell}"
    put(completion_class(cli, {}, "ldapslam", "_LDAPSLAM_COMPLETE").source())
    context.exit()


def _print_version(context: click.Context, _: click.Parameter, is_given: bool) -> None:
    if is_given and not context.resilient_parsing:
        put_result({"version": __version__}, [f"ldapslam, version {__version__}"])
        context.exit()


@click.group(
    cls=_Root,
    headings=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_exit_codes(),
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option(
    "--completion",
    type=click.Choice(("bash", "zsh", "fish")),
    metavar="SHELL",
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print the completion script of SHELL: bash, zsh or fish.",
)
def cli() -> None:
    """Put load on LDAP directories and report numbers you can sign."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and exit with its code."""
    code = run(arguments)
    # The interpreter would search everything for garbage several times as it ends.
    gc.freeze()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code."""
    try:
        return _run(arguments)
    except SystemExit:
        raise
    except KeyboardInterrupt:
        announce("interrupted")
        return ExitCode.INTERRUPTED
    except BaseException as error:
        # Whatever it is, its end must not look like a verdict: Python's own is 1.
        what = f"internal error: {type(error).__name__}: {error}"
        announce(without_passwords(what))
        announce(f"hint: this is a defect of ldapslam; {_keep_trace()}")
        return ExitCode.INTERNAL


def _run(arguments: Sequence[str] | None) -> int:
    # SIGTERM takes the way of Ctrl-C: children are ended, temporary files removed.
    # The commands that serve put handlers of their own in its place.
    signal.signal(signal.SIGTERM, _interrupt)
    words = tuple(sys.argv[1:] if arguments is None else arguments)
    try:
        with Invocation(words) as invocation:
            return _invoke(arguments, invocation)
    except ConfigError as error:  # the file of -o could not be written to its end
        complain(error)
        return exit_code_of(error)


def _invoke(arguments: Sequence[str] | None, invocation: Invocation) -> int:
    try:
        result = cli.main(
            args=None if arguments is None else list(arguments),
            prog_name="ldapslam",
            obj=invocation,
            standalone_mode=False,
        )
    except LdapSlamError as error:
        if is_json():
            hint = f"; hint: {error.hint}" if error.hint else ""
            logging.getLogger("ldapslam").error("%s%s", error, hint)
        else:
            complain(error)
        if invocation.json:
            put_json(error_document(error))
        return exit_code_of(error)
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption):
            from ldapslam.cli.hints import with_hint

            error = with_hint(error)
        if isinstance(error, click.MissingParameter) and error.param is not None:
            about = getattr(error.param, "help", None) or ""
            what = f"{error.format_message()} {about}".rstrip()
            if error.param.name == "base" and error.ctx is not None:
                uri = " ".join(error.ctx.params.get("uris") or ("URI",))
                what += f" `ldapslam new {uri} -o FILE` writes a job with a base that "
                what += "is there."
            error = click.UsageError(what, error.ctx)
        error.show()
        if invocation.json:
            put_json(error_document(ConfigError(error.format_message())))
        return ExitCode.USAGE
    except click.Abort:
        raise KeyboardInterrupt from None
    return int(result or ExitCode.PASS)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _keep_trace() -> str:
    """Write the trace of the exception being handled to a file; where it is."""
    command = " ".join(without_passwords(argument) for argument in sys.argv[1:])
    trace = without_passwords(traceback.format_exc())
    try:
        with tempfile.NamedTemporaryFile(
            *("w", -1, "utf-8"),
            prefix="ldapslam-error-",
            suffix=".log",
            delete=False,
            errors="backslashreplace",
        ) as log:
            log.write(f"ldapslam {command}\n{sys.version}\n\n{trace}")
    except OSError as error:
        return f"its details cannot be kept ({error}):\n{trace}"
    return f"{log.name} has the details"


if __name__ == "__main__":
    main()
