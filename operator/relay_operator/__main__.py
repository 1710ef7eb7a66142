"""The composition root: the commands, and the one place where a replica is wired."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence

import uvloop

from relay_operator.app import run
from relay_operator.crds import crds_as_yaml
from relay_operator.settings import SettingsError, describe_settings, load_settings


def main(arguments: Sequence[str] | None = None) -> int:
    """`relay-operator run | crds | settings`; the exit status is 2 for settings that cannot be used."""
    parser = argparse.ArgumentParser(
        prog="relay-operator", description="Runs GPU-cloud workloads from Kubernetes objects."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("run", help="reconcile; KUBECONFIG or in-cluster, settings from the environment (RELAY_*)")
    commands.add_parser("crds", help="print the CRDs, for kubectl apply -f -")
    commands.add_parser("settings", help="print every setting, its default and its meaning")
    match parser.parse_args(arguments).command:
        case "crds":
            sys.stdout.write(crds_as_yaml())
        case "settings":
            sys.stdout.write(describe_settings())
        case _:
            return _run()
    return 0


def _run() -> int:
    try:
        settings = load_settings()
    except SettingsError as error:
        sys.stderr.write(f"relay-operator: {error}\n")
        return 2
    status = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(run(settings))
    # All that is ours has ended in order. kopf's watches can outlive their cancellation, and a process that waited
    # for them would neither work nor be started again.
    logging.shutdown()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
