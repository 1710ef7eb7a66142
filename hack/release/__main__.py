"""`python -m hack.release package|check`: builds the files of a release and checks them."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from hack.release.package import FOLDER, ReleaseError, packaged
from hack.release.proof import proven
from tests.support.process import StartError
from tests.support.toolchain import BuildError


def main() -> int:
    """`package` builds dist/release; `check` also installs, pushes, signs and verifies its contents."""
    parser = argparse.ArgumentParser(prog="python -m hack.release", description=main.__doc__)
    parser.add_argument("command", choices=["package", "check"])
    parser.add_argument("--tag", help="that the release is made of; it must be that of the version")
    given = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="release-") as scratch:
            package = packaged(given.tag or None, Path(scratch))
            if given.command == "check":
                asyncio.run(proven(package, Path(scratch), _say))
    except (BuildError, ReleaseError, StartError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    for file in sorted(FOLDER.iterdir()):
        _say(f"{file.stat().st_size:>10,} B  {file}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
