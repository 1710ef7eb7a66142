"""Where a cloud listens, and the URLs that follow from it."""

import json
import logging
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from relay_localcloud.egress.reach import is_loopback
from relay_localcloud.gateway.endpoints import Names
from relay_localcloud.http.servers import ListenError, listen
from relay_localcloud.identity.organizations import Founded

_log = logging.getLogger(__name__)

SSH_PORT: Final = 8403


@dataclass(frozen=True)
class Binding:
    """Where to listen."""

    host: str
    management_port: int
    inference_port: int
    gateway_port: int
    ssh_port: int | None
    """None: the default port, or any free one if that is taken."""
    tls: bool
    advertised: str = ""
    """The name in URLs; if empty, URLs have the listening address."""
    gateway_domain: str = "localhost"
    public_url: str | None = None
    """The URL at which people and programs reach the management port; None: where it listens."""

    @property
    def reached_at(self) -> str:
        """The host at which clients reach the cloud; of this machine only if no proxy on it may serve others."""
        public = urlsplit(self.public_url or "").hostname
        return public if public and is_loopback(self.host) else self.host

    @property
    def known_as(self) -> str:
        """The host in URLs and in the certificate."""
        return self.advertised or self.host

    @property
    def workload_names(self) -> Names:
        """How the gateway's clients name workloads."""
        return Names(self.gateway_domain, by_path=is_loopback(self.host))


@dataclass(frozen=True)
class Urls:
    """The URLs of the ready line; the hosts of workloads' endpoints are below that of `endpoints`."""

    management: str
    inference: str
    gateway: str
    ssh: str
    endpoints: str


def bound(binding: Binding, stack: AsyncExitStack) -> list[socket.socket]:
    """The bound ports of management, inference, gateway and SSH; raises ListenError if one is not available."""
    ports = (binding.management_port, binding.inference_port, binding.gateway_port)
    return [stack.enter_context(each) for each in (*(listen(binding.host, port) for port in ports), _for_ssh(binding))]


def urls(binding: Binding, listeners: list[socket.socket]) -> Urls:
    """The URLs of these listeners."""
    host = f"[{binding.known_as}]" if ":" in binding.known_as else binding.known_as
    management, inference, gateway, ssh = (listener.getsockname()[1] for listener in listeners)
    scheme = "https" if binding.tls else "http"
    return Urls(
        management=binding.public_url or f"{scheme}://{host}:{management}",
        inference=f"{scheme}://{host}:{inference}",
        gateway=f"{scheme}://{host}:{gateway}",
        ssh=f"ssh://{host}:{ssh}",
        endpoints=f"{scheme}://{binding.gateway_domain}:{gateway}",
    )


def ready_line(said: Urls, founded: Founded) -> str:
    """The line that is printed once the cloud answers."""
    return json.dumps(
        {
            "managementUrl": said.management,
            "inferenceUrl": said.inference,
            "gatewayUrl": said.gateway,
            "sshUrl": said.ssh,
            "consoleUrl": said.management + "/",
            "controlUrl": said.management + "/_localcloud",
            "organizationId": founded.organization_id,
            "apiKey": founded.api_key,
            "userSessionToken": founded.user_session_token,
        }
    )


def _for_ssh(binding: Binding) -> socket.socket:
    """The SSH port; of several clouds on one machine, all but the first take a free one unless told otherwise."""
    try:
        return listen(binding.host, SSH_PORT if binding.ssh_port is None else binding.ssh_port)
    except ListenError as error:
        if binding.ssh_port is not None:
            raise
        _log.info("The SSH gateway takes another port. %s", error)
        return listen(binding.host, 0)
