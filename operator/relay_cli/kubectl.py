"""The cluster with the caller's rights: uses kubectl, so that every way to log in works."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from itertools import dropwhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from pydantic import BaseModel, JsonValue, TypeAdapter, ValidationError

from relay_cli.failures import Failure
from relay_cli.terminal import complain
from relay_kube.nesting import decoded, shallow

PATIENCE = "30s"
_READY_SECONDS = 30
_PAUSE_SECONDS = 5
_POD_SECONDS = 120
"""The longest run of kubectl with a Pod's ServiceAccount; a list may take several requests."""
_REST_SECONDS = 1
"""How long stderr may stay open after kubectl has ended; what kubectl wrote is there at once."""
_PIECE_BYTES = 65_536
_READS_ONLY = "--reject-methods=POST,PUT,PATCH,DELETE"
_FIRST = re.compile(r"(?:Error from server(?: \((?P<reason>\w+)\))?: |[Ee]rror: |(?=The .* is invalid:))(?P<rest>.*)")
_CAUSE = re.compile(r"(?:from server )?for: (?P<cause>.*)")
_NO_CRD = re.compile(r"the server doesn't have a resource type|no matches for kind \S+ in version .gpurelay\.dev/")
_OF_NO_FIELD = "<nil>: "
"""Begins the sentence by which the API server says that it checked no rules beyond the schema."""
_FORBIDDEN = re.compile(r"^.* is forbidden: (?P<who>User \".*)$")

ModelT = TypeVar("ModelT", bound=BaseModel)
AnswerT = TypeVar("AnswerT")


class ObjectList(BaseModel):
    """The answer of `kubectl get -o json` for a list."""

    items: list[JsonValue]


_OBJECT = TypeAdapter[dict[str, JsonValue]](dict[str, JsonValue])
_LIST = TypeAdapter(ObjectList)
_LISTED = TypeAdapter[list[dict[str, JsonValue]]](list[dict[str, JsonValue]])


class Missing(Failure):
    """The object does not exist."""


class Forbidden(Failure):
    """The caller lacks a right, which the message names."""


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the command line's options; an empty one leaves the kubeconfig's value. Every error is a Failure."""

    namespace: str = ""
    context: str = ""
    kubeconfig: str = ""

    async def list(self, resources: Sequence[str], *, everywhere: bool = False) -> list[JsonValue]:
        """Objects of these types in the namespace, or in all; cluster-scoped ones in either case."""
        arguments = ["get", ",".join(resources), "--output=json"]
        told = await self._run([*arguments, *(["--all-namespaces"] if everywhere else [])])
        return _read(_LIST, told).items

    async def get(self, reference: str, namespace: str = "") -> dict[str, JsonValue]:
        """The object `type/name`, in the current namespace unless another is given. Raises Missing."""
        return _read(_OBJECT, await self._run(["get", reference, "--output=json"], namespace))

    async def would_apply(self, files: Sequence[str]) -> Sequence[dict[str, JsonValue]]:
        """Objects as `kubectl apply` would leave them."""
        arguments = ["apply", "--dry-run=server", "--output=json", *(f"--filename={file}" for file in files)]
        told = _read(_OBJECT, await self._run(arguments, stdin="-" in files))
        return _LISTED.validate_python(told.get("items") if told.get("kind") == "List" else [told])

    @asynccontextmanager
    async def proxy(self) -> AsyncIterator[Path]:
        """The API server behind a Unix socket that only this user can open, for reads only."""
        with TemporaryDirectory() as folder:
            socket = Path(folder) / "api"
            former = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the proxy ends as with Ctrl-C
            try:
                async with self._running("proxy", f"--unix-socket={socket}", _READS_ONLY) as running:
                    try:
                        async with asyncio.timeout(_READY_SECONDS):
                            await running.stdout.readline()
                    except TimeoutError:
                        raise Failure(f"kubectl proxy was not ready after {_READY_SECONDS} seconds") from None
                    if not socket.exists():
                        raise refusal(await running.complaint())
                    yield socket
            finally:
                signal.signal(signal.SIGTERM, former)

    async def annotate(self, reference: str, name: str, value: str) -> None:
        """Set one annotation of an object."""
        await self._run(["annotate", "--overwrite", reference, f"{name}={value}"])

    async def _run(self, arguments: Sequence[str], namespace: str = "", *, stdin: bool = False) -> bytes:
        in_pod = is_in_pod(self.kubeconfig, os.environ)
        bound = [] if in_pod else [f"--request-timeout={PATIENCE}"]
        seconds = _POD_SECONDS if in_pod and not stdin else None  # a person may still write what kubectl reads
        async with self._running(*bound, *arguments, namespace=namespace) as running:
            try:
                async with asyncio.timeout(seconds):
                    told = await running.stdout.read()
                    status = await running.process.wait()
            except TimeoutError:
                raise Failure(f"kubectl did not end within {seconds} seconds: try again later") from None
            if status:
                raise refusal(await running.complaint())
            return told

    def options(self, namespace: str = "") -> Sequence[str]:
        """The options as arguments; `namespace` replaces the one that was given."""
        given = {"--namespace": namespace or self.namespace, "--context": self.context, "--kubeconfig": self.kubeconfig}
        return [f"{option}={value}" for option, value in given.items() if value]

    @asynccontextmanager
    async def _running(self, *arguments: str, namespace: str = "") -> AsyncIterator["_Running"]:
        """kubectl, which is killed if it has not ended by then."""
        async with _pipe() as (stdout, its_stdout), _pipe() as (stderr, its_stderr):
            with its_stdout, its_stderr:
                process = await _started(["kubectl", *self.options(namespace), *arguments], its_stdout, its_stderr)
            heard = bytearray()
            hearing = asyncio.create_task(_hear(stderr, heard))
            try:
                yield _Running(process, stdout, hearing, heard)
            finally:
                hearing.cancel()
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


@dataclass(frozen=True, slots=True)
class _Running:
    """A kubectl."""

    process: Process
    stdout: asyncio.StreamReader
    hearing: asyncio.Task[None]
    heard: bytearray

    async def complaint(self) -> str:
        """What it said on stderr until its end; what a login plugin started, as a browser, may keep stderr open."""
        await asyncio.wait([self.hearing], timeout=_REST_SECONDS)
        return self.heard.decode(errors="replace")


async def _started(command: Sequence[str], stdout: FileIO, stderr: FileIO) -> Process:
    try:
        return await asyncio.create_subprocess_exec(*command, stdout=stdout, stderr=stderr)
    except FileNotFoundError:
        raise Failure("kubectl is not on PATH: install it, or add its folder to PATH") from None
    except OSError as error:
        raise Failure(f"the kubectl on PATH cannot be run: {error.strerror}") from None


def is_in_pod(kubeconfig: str, environment: Mapping[str, str]) -> bool:
    """Whether kubectl would use a Pod's ServiceAccount: no kubeconfig names a server. Then nobody logs in.

    kubectl does not do so with an option that changes its connection, as --request-timeout does.
    """
    usual = environment.get("KUBECONFIG") or str(Path(environment.get("HOME", "")) / ".kube" / "config")
    files = [kubeconfig] if kubeconfig else usual.split(os.pathsep)
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and not any(_names_server(Path(file)) for file in files)


def _names_server(kubeconfig: Path) -> bool:
    try:
        return b"server" in kubeconfig.read_bytes()
    except OSError:
        return False


@asynccontextmanager
async def _pipe() -> AsyncIterator[tuple[asyncio.StreamReader, FileIO]]:
    """A pipe's two ends. With asyncio's own, a process would count as running until all have closed its pipes."""
    ours, its = os.pipe()
    with FileIO(its, "w") as its_end:
        stream = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(stream)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, FileIO(ours))
        try:
            yield stream, its_end
        finally:
            transport.close()


async def _hear(stderr: asyncio.StreamReader, heard: bytearray) -> None:
    """Collect what kubectl says on stderr; shown as soon as it pauses, since it may be what a login plugin asks."""
    shown = 0
    while True:
        try:
            async with asyncio.timeout(_PAUSE_SECONDS):
                piece = await stderr.read(_PIECE_BYTES)
        except TimeoutError:
            if said := _without_warnings(heard[shown:].decode(errors="replace")):
                complain(f"kubectl waits, and says: {said}")
            shown = len(heard)
        else:
            if not piece:
                return
            heard += piece


def _without_warnings(said: str) -> str:
    """What may ask for something: a warning, as of an object that `apply` did not create, needs no answer."""
    return "\n".join(line for line in said.splitlines() if not line.startswith("Warning: ")).strip()


def refusal(complaint: str) -> Failure:
    """kubectl's first error, as a sentence. Pure."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = list(dropwhile(lambda line: not _FIRST.match(line), lines))
    found = _FIRST.match(errors[0]) if errors else None
    if found is None:
        return Failure(lines[-1] if lines else "kubectl failed and did not say why")
    reason, rest = found["reason"], _whole(found["rest"], errors[1:])
    if reason == "NotFound":
        return Missing(rest)
    if reason == "Forbidden":
        told = _FORBIDDEN.match(rest)
        return Forbidden(f"{told['who'] if told else rest}: ask an administrator of the cluster for this right")
    if _NO_CRD.search(rest):
        return Failure(f"{rest}: install the CRDs of relay-operator, or choose another cluster with --context")
    return Failure(rest)


def _whole(first: str, following: Sequence[str]) -> str:
    """An error that may go on over lines: a list of what is invalid, or a long text whose last line is the cause."""
    if not first.endswith(":"):
        return first
    listed = (line.removeprefix("* ") for line in following if line.startswith("* "))
    if fields := [line for line in listed if not line.startswith(_OF_NO_FIELD)]:
        return f"{first} {'; '.join(fields)}"
    return next((cause["cause"] for cause in map(_CAUSE.match, following) if cause), first)


def _read(adapter: TypeAdapter[AnswerT], told: bytes) -> AnswerT:
    """kubectl's answer; raises Failure, which quotes nothing of it, since it may be a Secret. Pure."""
    try:
        return adapter.validate_json(told)
    except ValidationError:
        with suppress(ValueError):  # one object among others may be nested too deeply
            return adapter.validate_python(decoded(shallow(told)))
        raise Failure("kubectl printed something other than an object in JSON: check the kubectl on PATH") from None


def parsed(model: type[ModelT], raw: object) -> ModelT:
    """The object; raises Failure, which quotes none of its values, if this release cannot read it. Pure."""
    try:
        return model.model_validate(raw)
    except ValidationError as invalid:
        problem = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise Failure(f"{_named(raw, model)} cannot be read: {where}: {problem['msg']}") from None


def _named(raw: object, model: type[BaseModel]) -> str:
    """Which object that is, as far as it says so. Pure."""
    match raw:
        case {"kind": str(kind), "metadata": {"namespace": str(namespace), "name": str(name)}}:
            return f"{kind}/{namespace}/{name}"
        case {"kind": str(kind), "metadata": {"name": str(name)}}:
            return f"{kind}/{name}"
        case _:
            return f"a {model.__name__}"
