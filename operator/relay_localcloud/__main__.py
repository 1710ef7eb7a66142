"""The command line of the local cloud."""

import argparse
import gc
import logging
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from relay_localcloud.http.web_addresses import web_address


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns 0 when done, or after SIGTERM or Ctrl-C; 1 with a sentence on stderr on failure."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    for talkative in ("uvicorn.error", "asyncssh"):  # the latter logs every command that a user runs
        logging.getLogger(talkative).setLevel(logging.WARNING)
    # Loading makes no garbage: collecting meanwhile costs a sixth of the start, and later nothing of it is collected.
    gc.disable()
    module = import_module(chosen.module)
    gc.freeze()
    gc.enable()
    return int(module.start(chosen))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="relay-localcloud", description="The GPU cloud on one machine.")
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_serve(commands)
    _add_backup(commands)
    _add_rotate_key(commands)
    return parser


def _add_backup(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "backup",
        help="copy the state of a running or stopped cloud",
        description="Copies a state directory as it is at one instant, whether a cloud serves it or not, and opens the "
        "copy. To restore it, serve it with --state.",
    )
    command.set_defaults(module="relay_localcloud.backup")
    command.add_argument("--state", type=Path, metavar="DIR", required=True, help="the state directory")
    command.add_argument("target", type=Path, metavar="TARGET", help="the directory to create")


def _add_rotate_key(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "rotate-key",
        help="encrypt the secrets of a state with another key",
        description="Encrypts the secrets of a state that no cloud serves with another key. If it is killed, they are "
        "under one of the two: run it again.",
    )
    command.set_defaults(module="relay_localcloud.rotation")
    command.add_argument("--state", type=Path, metavar="DIR", required=True, help="the state directory")
    former = command.add_mutually_exclusive_group()
    former.add_argument(
        "--key-file", type=Path, metavar="FILE", help="the key until now (default: secrets.key in the state directory)"
    )
    former.add_argument(
        "--lost", action="store_true", help="the key until now is lost: give up the secrets, which must be recreated"
    )
    command.add_argument(
        "new_key_file", type=Path, metavar="NEW", help="the key from now on, which is created if there is no such file"
    )


def _add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser(
        "serve",
        help="serve the cloud until Ctrl-C",
        description="Serves the cloud. Once it answers, one line of JSON on stdout says where, with a key to use.",
    )
    command.set_defaults(module="relay_localcloud.serve")
    command.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    command.add_argument("--port", type=_port, default=8400, help="management API, 0 for any (default: %(default)s)")
    command.add_argument("--inference-port", type=_port, default=8401, help="inference API (default: %(default)s)")
    command.add_argument("--gateway-port", type=_port, default=8402, help="workloads (default: %(default)s)")
    command.add_argument("--ssh-port", type=_port, help="SSH to workloads (default: 8403, any while that is taken)")
    kept = command.add_mutually_exclusive_group()
    kept.add_argument("--state", type=Path, metavar="DIR", help="keep the state here, and continue from it")
    kept.add_argument("--ephemeral", action="store_true", help="keep the state in memory only (the default)")
    command.add_argument(
        "--key-file",
        type=Path,
        metavar="FILE",
        help="the key that secrets are encrypted with (default: secrets.key in the state directory, or in memory)",
    )
    _add_runtime(command)
    command.add_argument("--clock", choices=("real", "frozen"), default="real", help="how a fresh state's clock runs")
    command.add_argument("--seed", type=Path, metavar="FILE", help="an exported state that a fresh state starts from")
    command.add_argument("--list-vms", action="store_true", help="serve GET /v1/orgs/{orgId}/vms as well")
    command.add_argument("--tls", action="store_true", help="serve https with a self-signed certificate")
    command.add_argument("--public-control", action="store_true", help="let other machines use the control interface")
    command.add_argument(
        "--admin-token-file",
        type=_admin_token,
        default=None,
        metavar="FILE",
        help="control interface and console require the token in this file, from any machine",
    )
    command.add_argument(
        "--allow-network",
        type=_network,
        action="append",
        default=[],
        metavar="CIDR",
        help="private addresses that webhooks and model servers may have; repeatable. A cloud that listens "
        "on loopback calls all addresses, any other only public ones and these",
    )
    command.add_argument(
        "--advertise", type=_host, default="", metavar="HOST", help="the host in URLs (default: that of --host)"
    )
    command.add_argument(
        "--public-url",
        type=_public_url,
        metavar="URL",
        help="the URL at which clients reach the management port, such as https://cloud.example.com behind an Ingress",
    )
    command.add_argument(
        "--gateway-domain",
        type=_domain,
        default="localhost",
        metavar="DOMAIN",
        help="each workload is <label>.DOMAIN; the domain's names must resolve to this machine (default: %(default)s)",
    )


def _add_runtime(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--runtime",
        choices=("simulated", "kubernetes"),
        default="simulated",
        help="what runs workloads: nothing, or a Kubernetes cluster, which needs --state (default: %(default)s)",
    )
    command.add_argument(
        "--runtime-config", type=Path, metavar="FILE", help="YAML: clusters, GPU models, CPU sizes and their prices"
    )
    command.add_argument(
        "--cluster",
        type=_cluster,
        action="append",
        default=[],
        metavar="NAME=KUBECONFIG",
        help="the kubeconfig of a cluster, which may be in --runtime-config; repeatable (default: this Pod's cluster)",
    )


def _cluster(text: str) -> tuple[str, Path]:
    name, _, kubeconfig = text.partition("=")
    if not name or not kubeconfig:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=KUBECONFIG, such as eu=eu.kubeconfig")
    return name, Path(kubeconfig)


def _admin_token(path: str) -> str:
    try:
        token = Path(path).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"the admin token cannot be read: {error}") from error
    if not token:
        raise argparse.ArgumentTypeError(f"{path} has no admin token: put one into it")
    return token


def _host(text: str) -> str:
    """Check a host for URLs: a name, as Docker and DNS have them, or an IP address."""
    try:
        ip_address(text)
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9._-]*", text):
            said = f"{text!r} is not a host alone, such as cloud.example.com: give neither a scheme nor a port"
            raise argparse.ArgumentTypeError(said) from None
    return text


def _domain(text: str) -> str:
    domain = text.lower()
    if not all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", part) for part in domain.split(".")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a domain, such as apps.example.com")
    return domain


def _public_url(text: str) -> str:
    """Check a public URL: scheme and host in the form of an origin; the console's pages link from the root."""
    url = web_address(text.lower().rstrip("/"))
    if url is None or "@" in url.netloc or url.path or url.query or url.fragment:
        raise argparse.ArgumentTypeError(f"{text!r} is not a scheme and a host, such as https://cloud.example.com")
    return url.geturl().removesuffix({"http": ":80", "https": ":443"}[url.scheme])


def _network(text: str) -> IPv4Network | IPv6Network:
    """Parse a network in CIDR notation, of which one of its addresses may be given."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a network, such as 10.96.0.0/12") from None


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
