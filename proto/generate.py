# SPDX-License-Identifier: Apache-2.0
"""Generate the protobuf and gRPC modules beside their .proto files.

    python proto/generate.py            write them
    python proto/generate.py --check    exit 1 when a committed file is not up to date

The generator is deliberately an old one, pinned here and in pyproject.toml: generated
code refuses runtimes older than its generator, so the pin is the floor of `grpcio` and
`protobuf` that users need. protoc's virtual mapping `ldapslam/proto=proto` makes the
imports in the generated code read `from ldapslam.proto import …` without rewriting.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

GRPCIO_TOOLS_VERSION = "1.72.2"
PROTO_DIR = Path(__file__).resolve().parent


def generate(into: Path) -> dict[str, bytes]:
    """Run the generator with scratch folder `into`; file name -> content."""
    from grpc_tools import protoc

    found = version("grpcio-tools")
    if found != GRPCIO_TOOLS_VERSION:
        raise SystemExit(
            f"grpcio-tools {found} is installed, the generator is pinned to "
            f"{GRPCIO_TOOLS_VERSION}"
        )
    sources = sorted(PROTO_DIR.glob("*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"--proto_path=ldapslam/proto={PROTO_DIR}",
            f"--proto_path={Path(protoc.__file__).parent}/_proto",
            f"--python_out={into}",
            f"--pyi_out={into}",
            f"--grpc_python_out={into}",
            *map(str, sources),
        ]
    )
    if status:
        raise SystemExit(f"protoc ended with status {status}")
    return {
        path.name: path.read_bytes()
        for path in sorted((into / "ldapslam" / "proto").iterdir())
        # a message-only file gets an empty service module: nothing to import there
        if not (
            path.name.endswith("_pb2_grpc.py") and b"\nclass " not in path.read_bytes()
        )
    }


def stale_files(files: dict[str, bytes]) -> list[str]:
    committed = {
        path.name: path.read_bytes()
        for pattern in ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py")
        for path in PROTO_DIR.glob(pattern)
    }
    names = committed.keys() | files.keys()
    return sorted(name for name in names if committed.get(name) != files.get(name))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        files = generate(Path(scratch))
    stale = stale_files(files)
    if options.check:
        for name in stale:
            sys.stderr.write(f"proto/{name} is not up to date\n")
        return 1 if stale else 0
    for name in stale:
        if name in files:
            (PROTO_DIR / name).write_bytes(files[name])
        else:
            (PROTO_DIR / name).unlink()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
