"""The composition root: the commands, and the only place where a replica is wired."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

import uvloop

from relay_operator import app, crds, settings
from relay_operator.kinds import KINDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `relay-operator run | crds | settings`; returns exit status 2 for unusable settings."""
    command = _parser().parse_args(arguments).command
    match command:
        case "crds":
            sys.stdout.write(crds.crds_as_yaml())
            return 0
        case "settings":
            sys.stdout.write(settings.describe_settings())
            return 0
    try:
        chosen = settings.load_settings([kind.name for kind in KINDS if kind.assumed])
    except settings.SettingsError as error:
        sys.stderr.write(f"relay-operator: {error}\n")
        return 2
    status = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(app.run(chosen))
    # The operator's own tasks have ended in order. kopf's watches can outlive their cancellation, and a process that
    # waited for them would neither work nor be restarted.
    logging.shutdown()
    os._exit(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="relay-operator", description="Runs GPU-cloud workloads from Kubernetes objects."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('relay-operator')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("run", help="reconcile; KUBECONFIG or in-cluster, settings from the environment (RELAY_*)")
    commands.add_parser("crds", help="print the CRDs, for kubectl apply --server-side -f -")
    commands.add_parser("settings", help="print every setting, its default and its meaning")
    return parser


if __name__ == "__main__":
    sys.exit(main())
