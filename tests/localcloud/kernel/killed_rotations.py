"""A program: rotates the key of copies of a state, each killed (SIGKILL) some steps later, until a rotation is whole.

    python -m tests.localcloud.kernel.killed_rotations STATE KEY DIRECTORY FIRST EVERY

The first is killed at the step FIRST, each further one EVERY steps later.
Each line says which key the copy is under then, and what the next rotation sealed. A step is a call, or its end, in the
modules that rotate.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from relay_localcloud import rotation
from relay_localcloud.kernel import keys, store
from relay_localcloud.kernel.disk import StateError
from relay_localcloud.kernel.store import Store
from relay_localcloud.kernel.vault import Unreadable, owner_of

if TYPE_CHECKING:
    from types import FrameType

_STEPS_OF = {module.__file__ for module in (rotation, keys, store)}


def kill_at(last: int) -> None:
    """SIGKILL this process at a step."""
    step = 0

    def count(frame: FrameType, *_: object) -> None:
        nonlocal step
        step += frame.f_code.co_filename in _STEPS_OF
        if step == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def opens(state: Path, key: Path) -> bool:
    """Whether a cloud starts with this key, and each secret opens with it then."""
    with closing(Store.at(state)) as opened:
        try:
            at_rest = keys.open_vault(opened, key)
        except StateError:
            return False
        with opened.transaction(at=0) as tx:
            for rows, field in rotation.SEALED:
                for row in rows.all(tx):
                    try:
                        at_rest.open(getattr(row, field), owner_of(row.organization_id, row.id))
                    except Unreadable:
                        return False
    return True


def main(state: Path, key: Path, directory: Path, *, first: int, every: int) -> None:
    """Print a line for each rotation."""
    for step in range(first, 100_000, every):
        copy, other = directory / f"state-{step}", directory / f"key-{step}"
        shutil.copytree(state, copy)
        child = os.fork()
        if child == 0:
            kill_at(step)
            rotation.rotate(copy, key, other)
            sys.setprofile(None)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        under = [name for name, path in (("former", key), ("other", other)) if opens(copy, path)]
        again = rotation.rotate(copy, key, other)
        left = {"killed": os.WIFSIGNALED(status), "under": under, "again": again, "ends": opens(copy, other)}
        sys.stdout.write(json.dumps(left) + "\n")
        shutil.rmtree(copy)
        if not os.WIFSIGNALED(status):
            return


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), first=int(sys.argv[4]), every=int(sys.argv[5]))
