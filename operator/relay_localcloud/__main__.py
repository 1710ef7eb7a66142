"""The command line of the local cloud."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from relay_localcloud.app import Options
from relay_localcloud.serve import Binding, serve
from relay_localcloud.servers import ListenError
from relay_localcloud.state_file import StateFileError
from relay_localcloud.store import StateError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0 after SIGTERM or Ctrl-C, 1 with a sentence on stderr where it cannot start."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    binding = Binding(chosen.host, chosen.port, chosen.inference_port, chosen.gateway_port, chosen.tls)
    options = Options(chosen.state, chosen.clock, chosen.seed, chosen.list_vms, chosen.public_control)
    try:
        uvloop.run(serve(binding, options))
    except (StateError, ListenError, StateFileError) as error:
        sys.stderr.write(f"relay-localcloud: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="relay-localcloud", description="The GPU cloud on one machine.")
    commands = parser.add_subparsers(required=True, metavar="command")
    command = commands.add_parser(
        "serve",
        help="serve the cloud until Ctrl-C",
        description="Serves the cloud. Once it answers, one line of JSON on stdout says where, with a key to use.",
    )
    command.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    command.add_argument("--port", type=_port, default=8400, help="management API, 0 for any (default: %(default)s)")
    command.add_argument("--inference-port", type=_port, default=8401, help="inference API (default: %(default)s)")
    command.add_argument("--gateway-port", type=_port, default=8402, help="workloads (default: %(default)s)")
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--state", type=Path, metavar="DIR", help="keep the state here, and go on from what is there")
    kept.add_argument("--ephemeral", action="store_true", help="keep the state in memory only (the default)")
    command.add_argument("--clock", choices=("real", "frozen"), default="real", help="how a fresh state's clock goes")
    command.add_argument("--seed", type=Path, metavar="FILE", help="an exported state that a fresh state starts from")
    command.add_argument("--list-vms", action="store_true", help="serve GET /v1/orgs/{orgId}/vms as well")
    command.add_argument("--tls", action="store_true", help="serve https with a self-signed certificate")
    command.add_argument("--public-control", action="store_true", help="let other machines use the control interface")
    return parser


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return port


if __name__ == "__main__":
    sys.exit(main())
