"""Checks a release against local services: it installs, its charts render from a registry, signatures verify."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Final

from hack.release.package import CHARTS, ReleaseError, installed, run
from tests.support.binaries import helm
from tests.support.process import Process, free_port
from tests.support.toolchain import installed_from

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from hack.release.package import Package

_REGISTRY: Final = ("github.com/distribution/distribution/v3/cmd/registry", "v3.1.2")
_COSIGN: Final = ("github.com/sigstore/cosign/v3/cmd/cosign", "v3.1.3")
_MADE_ANEW: Final = re.compile(r"^  token: \S+$", re.MULTILINE)
"""Matches the random token, the only line that a chart renders differently each time."""
_LOCAL_REGISTRY: Final = """\
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {data}}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


async def proven(package: Package, scratch: Path, say: Callable[[str], None]) -> None:
    """Runs every check and passes a sentence per result to `say`; raises ReleaseError at the first that fails."""
    _runs(package, scratch)
    say("the wheel runs in an empty environment: relay-operator, and relay-localcloud with its extra")
    say(f"{package.contents.name} names {_components(package)} components")
    port = free_port()
    configuration = scratch / "registry.yaml"
    configuration.write_text(_LOCAL_REGISTRY.format(data=scratch / "registry", port=port))
    binary = str(installed_from(*_REGISTRY, "registry"))
    registry = Process("registry", [binary, "serve", str(configuration)], scratch / "registry.log", _listens(port))
    await registry.start()
    try:
        for source, packed in zip(CHARTS, package.charts, strict=True):
            chart = _pushed(source, packed, package.version, f"127.0.0.1:{port}/charts")
            say(f"the chart renders from the registry as from the source: {chart}")
            _signed(chart, scratch / source.name)
            say("its signature holds with the key that made it, and with no other")
    finally:
        await registry.stop()


def _runs(package: Package, scratch: Path) -> None:
    for name, folder in (
        ("relay-operator", package.environment),
        ("relay-localcloud", installed(package.wheel, "localcloud", scratch / "localcloud")),
    ):
        if "usage:" not in run(str(folder / "bin" / name), "--help"):
            raise ReleaseError(f"{name} --help does not say how it is used")


def _components(package: Package) -> int:
    """Returns the number of components in the bill of materials.

    Raises ReleaseError unless the operator's own dependencies are among them, each with its version.
    """
    listed = json.loads(package.contents.read_text())["components"]
    if not {"kopf", "pydantic", "aiohttp"} <= {one["name"] for one in listed if one.get("version")}:
        raise ReleaseError(f"{package.contents} does not name what is installed")
    return len(listed)


def _pushed(source: Path, packed: Path, version: str, registry: str) -> str:
    """Pushes a chart, compares what it renders from the registry with the source, and returns its name by digest."""
    said = run(str(helm()), "push", str(packed), f"oci://{registry}", "--plain-http")
    found = re.search(r"Digest: (sha256:[0-9a-f]{64})", said)
    if found is None:
        raise ReleaseError(f"helm push printed no digest:\n{said}")
    template = (str(helm()), "template", "relay", "--namespace", "relay-system")
    there = run(*template, f"oci://{registry}/{source.name}", "--version", version, "--plain-http")
    here = run(*template, str(source))
    if _MADE_ANEW.sub("", here) not in _MADE_ANEW.sub("", there):
        raise ReleaseError(f"the chart {source.name} from the registry renders differently from its source")
    return f"{registry}/{source.name}@{found[1]}"


def _signed(artifact: str, scratch: Path) -> None:
    """Signs with a throw-away key and verifies; a release signs with Sigstore's services, which this does not use."""
    cosign = str(installed_from(*_COSIGN, "cosign"))
    scratch.mkdir()
    alone = scratch / "signing.json"
    run(cosign, "signing-config", "create", f"--out={alone}")
    for name in ("ours", "another"):
        run(cosign, "generate-key-pair", f"--output-key-prefix={scratch / name}", COSIGN_PASSWORD="")
    sign = (cosign, "sign", "--yes", "--allow-http-registry", f"--signing-config={alone}")
    run(*sign, f"--key={scratch / 'ours'}.key", artifact, COSIGN_PASSWORD="")
    verify = (cosign, "verify", "--allow-http-registry", "--insecure-ignore-tlog")
    run(*verify, f"--key={scratch / 'ours'}.pub", artifact)
    try:
        run(*verify, f"--key={scratch / 'another'}.pub", artifact)
    except ReleaseError:
        return
    raise ReleaseError("the signature holds with a key that did not make it")


def _listens(port: int) -> Callable[[], Awaitable[bool]]:
    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    return listens
