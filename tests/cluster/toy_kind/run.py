"""The operator with one kind more: `python -m tests.cluster.toy_kind.run`; settings as of `relay-operator run`."""

import asyncio
import os

from relay_operator.app import run
from relay_operator.kinds import KINDS
from relay_operator.settings import load_settings
from tests.cluster.toy_kind.toy import KIND

if __name__ == "__main__":
    os._exit(asyncio.run(run(load_settings(), (*KINDS, KIND))))
