"""kopf's watches, which feed the cache and the queue. Only this module and `credentials` import kopf."""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NoReturn, cast

import aiohttp
import kopf
from kopf._cogs.clients.errors import APIError
from kopf._cogs.clients.watching import WatchingError
from kopf._cogs.structs.references import Insights
from kopf._core.engines.peering import Identity
from yarl import URL

from relay_kube.kube import JsonObject, ResourceType
from relay_operator.api.meta import GROUP, VERSION
from relay_operator.credentials import credentials
from relay_operator.engine.informer import Informer
from relay_operator.sifting import Sifted

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Absence:
    """What happens while the API server does not know a kind, or does not let the operator read it."""

    seconds: float
    """Between two requests."""
    noticed: Callable[[], None]
    """Called once at the beginning of each absence, after the first wait, since what the API server tells of its kinds
    lags behind; and at its end, since the CRD may be older than the one before."""


class _NoDiffs(kopf.DiffBaseStorage):
    """Disables kopf's diffs: only raw events are handled, and an essence of each would cost time and memory."""

    def build(self, *, body: kopf.Body, extra_fields: object = None, ignored_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Does nothing: no essence is kept."""


def _registry(informer: Informer, kinds: Mapping[str, str], absence: Absence) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    # One handler for all kinds, since kopf compares each event with each handler.
    @kopf.on.event(lambda resource: resource.plural in kinds, group=GROUP, version=VERSION, registry=registry)
    async def observe(event: kopf.RawEvent, resource: kopf.Resource, **_: object) -> None:
        raw = cast("JsonObject", event["object"])
        (informer.gone if event["type"] == "DELETED" else informer.seen)(kinds[resource.plural], raw)

    login = _Login((_sifting(informer, kinds), _outlasting(kinds, absence)))
    kopf.on.login(registry=registry)(login.login)
    return registry


@dataclass(slots=True)
class _Login:
    """Gives kopf the sessions that it would create itself, with middlewares."""

    middlewares: tuple[aiohttp.ClientMiddlewareType, ...]
    last: tuple[kopf.ConnectionInfo, kopf.AiohttpSession] | None = None

    async def login(self, **_: object) -> kopf.AiohttpSession:
        """The same session for the same credentials, since kopf never reuses credentials that were refused."""
        found = await asyncio.to_thread(credentials)
        if self.last is None or self.last[0] != found:
            self.last = found, self._session(found)
        return self.last[1]

    def _session(self, found: kopf.ConnectionInfo) -> kopf.AiohttpSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=found.as_ssl_context()),
            headers=found.as_http_headers(),
            proxy=found.proxy_url,
            trust_env=found.trust_env,
            middlewares=self.middlewares,
        )
        return kopf.AiohttpSession(
            server=found.server,
            default_namespace=found.default_namespace,
            priority=found.priority,
            expiration=found.expiration,
            aiohttp_session=session,
        )


def _sifting(informer: Informer, kinds: Mapping[str, str]) -> aiohttp.ClientMiddlewareType:
    """Removes what the informer knows already from every list and watch.

    Three of an object's four events echo the operator's own writes, and each event would cost kopf as much as half a
    pass. The informer has read all objects before kopf lists: the list ends after its first page, and the watch begins
    where the informer's list was made. `kinds` by plural.
    """

    async def sift(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        answer = await send(request)
        kind = kinds.get(request.url.name)
        if kind is not None and answer.status == 200:
            listed = "" if "watch" in request.url.query else informer.listed(kind, _namespace(request.url))
            sifted = Sifted(answer.content, partial(informer.recognizes, kind), listed)
            answer.content = cast("aiohttp.StreamReader", sifted)
        return answer

    return sift


_ABSENCES = {
    404: "the CRD of %s is absent: the operator continues without this kind",
    403: "the operator may not list or watch %s: it continues with what it knows of this kind",
}
"""What to tell of each status."""


def _outlasting(kinds: Mapping[str, str], absence: Absence) -> aiohttp.ClientMiddlewareType:
    """Asks again and again while the CRD of a list or watch is absent, or the operator may not read the kind.

    The 404 or 403 would end kopf, and with it the watches of all other kinds. `kinds` by plural.
    """
    absent = set[str]()
    """The paths of such lists."""

    async def outlast(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        kind = kinds.get(request.url.name)
        path = request.url.path
        while (answer := await send(request)).status in _ABSENCES and kind is not None:
            answer.release()
            if path in absent:
                await asyncio.sleep(absence.seconds)
                continue
            absent.add(path)
            logger.warning(_ABSENCES[answer.status], kind)
            await asyncio.sleep(absence.seconds)
            absence.noticed()
        if path in absent:
            absent.discard(path)
            absence.noticed()
        return answer

    return outlast


def _namespace(url: URL) -> str:
    """The namespace in the path of a list; empty if it is of all."""
    match url.parts:
        case (*_, "namespaces", namespace, _):
            return namespace
        case _:
            return ""


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # no lists and watches of CRDs and namespaces, so fewer rights are needed
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])  # such handlers make no progress either
    settings.queueing.idle_timeout = 1.0  # a task per object lives this long after its last event
    settings.watching.chunk_size = 50  # such a page has no bound in bytes, and is mostly not needed
    settings.process.ultimate_exiting_timeout = None  # the operator decides how its process ends, not kopf
    return settings


_ENDING_SECONDS = 5.0
_IDENTITY = Identity("relay-operator")
"""Otherwise kopf would look up the user, and a container's user has no name. Nothing reads it without peering."""
WATCH_ERRORS: tuple[type[BaseException], ...] = (APIError, WatchingError)
"""Errors that end a watch when the API server fails. kopf logs each itself; a traceback would add nothing."""


class WatchEndedError(Exception):
    """A watch failed in a way other than expiring."""


async def _with_absent(insights: Insights, kinds: Collection[ResourceType]) -> None:
    """Have the kinds watched, too, that discovery, which kopf reads once, does not name. Waits until cancelled."""
    await insights.ready_resources.wait()
    async with insights.revised:
        insights.watched_resources.update(
            kopf.Resource(kind.group, kind.version, kind.plural, namespaced=kind.namespaced) for kind in kinds
        )
        insights.revised.notify_all()
    await asyncio.Event().wait()


async def watch(
    informer: Informer,
    kinds: Mapping[str, ResourceType],
    namespaces: Collection[str],
    take_back_signals: Callable[[], None],
    absence: Absence,
) -> NoReturn:
    """Watch every kind until cancelled.

    No namespaces means all. `take_back_signals` is called after kopf has replaced the process's handlers of SIGTERM and
    SIGINT with its own. Raises WatchEndedError if a watch fails in a way other than expiring: the process must then end
    and be restarted.
    """
    insights = Insights()
    # Not `kopf.operator`, which at its end cancels every later task of the loop, the operator's included.
    spawned = await kopf.spawn_tasks(
        registry=_registry(informer, {of.plural: kind for kind, of in kinds.items()}, absence),
        settings=_settings(),
        insights=insights,
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
        standalone=True,
        identity=_IDENTITY,
    )
    take_back_signals()
    tasks = (*spawned, asyncio.create_task(_with_absent(insights, kinds.values())))
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        causes = [error for task in done if not task.cancelled() and (error := task.exception()) is not None]
        raise WatchEndedError(f"a watch failed: {causes[0] if causes else 'it ended by itself'}")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_ENDING_SECONDS)
