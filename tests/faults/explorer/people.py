"""Acts of people, and their answers to Stalled objects, as the documentation recommends."""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from typing import TYPE_CHECKING, Final

from tests.faults.explorer.history import ACCOUNTS, Act, Do, kind_of
from tests.faults.oracles import given_by, uid_part
from tests.faults.scenarios import ENV_KEY, ENV_SECRET
from tests.faults.steps import put_back
from tests.support.kube import KubeError
from tests.support.manifests import condition, gpu_cluster, gpu_pod, stalled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.faults.explorer.field import Field
    from tests.support.kube import Manifest

_ANNOTATION: Final = "gpurelay.dev/"
_INTENT: Final = f"{_ANNOTATION}create-intent"
_ADOPT_ID: Final = f"{_ANNOTATION}adopt-id"
_PAUSED: Final = f"{_ANNOTATION}paused"
# Seconds that a person takes to look into the cloud and answer.
_THOUGHT: Final = 2.5
_ENV: Final = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": ENV_SECRET, "key": ENV_KEY}}}]
_COMMAND: Final = "run: "
_TAKEN: Final = " belongs to "
# Reasons whose cause has been resolved by then, and the annotation that makes the operator try again.
_NUDGED: Final = {
    "BalanceExhausted": "reconcile-at",
    "BackOff": "reconcile-at",
    "Failed": "restarted-at",
}
# Reasons for which the object is deleted and applied again.
_GIVEN_UP: Final = frozenset({"TerminatedExternally", "AdoptionRefused"})


class People:
    """The people with access to the namespace.

    A desired object is applied as soon as its name is free, without waiting for it.
    """

    def __init__(self, field: Field) -> None:
        self._field, self._kube = field, field.kube
        self._backups: dict[str, Manifest] = {}
        self._asked: dict[str, float] = {}
        self.answers: list[str] = []
        """Questions and answers: object, reason, and what people did."""
        self._acts: Mapping[Do, Callable[[Act], Awaitable[None]]] = {
            Do.APPLY: self._apply,
            Do.DELETE: self._delete,
            Do.FORCE_AWAY: self._force_away,
            Do.ABANDON: self._abandon,
            Do.RENAME: self._rename,
            Do.COPY: self._copy,
            Do.SCALE: self._scale,
            Do.RECREATE: self._recreate,
            Do.STOP: self._power,
            Do.START: self._power,
            Do.PAUSE: self._pause,
            Do.UNPAUSE: self._pause,
            Do.ADOPT: self._adopt,
            Do.MOVE: self._move,
            Do.BACK_UP: self._back_up,
            Do.RESTORE: self._restore,
        }

    async def do(self, act: Act) -> bool:
        """Does an act of people, if it is possible; returns whether it is one of people."""
        if act.do not in self._acts:
            return False
        with contextlib.suppress(KubeError):
            await self._acts[act.do](act)
        return True

    async def insist(self) -> None:
        """Creates desired objects that do not exist."""
        there = {item["metadata"]["name"] for item in await self._field.objects()}
        for name in set(self._field.wanted) - there:
            with contextlib.suppress(KubeError):
                made = await self._kube.create(self._field.wanted[name])
                self._hand(made, made["metadata"].get("annotations", {}).get(_ADOPT_ID))

    async def take_their_hands_off(self) -> None:
        """Removes every pause, also from what is to be created once its name is free."""
        for wanted in self._field.wanted.values():
            wanted["metadata"].get("annotations", {}).pop(_PAUSED, None)
        for item in await self._field.objects():
            if _PAUSED in item["metadata"].get("annotations", {}):
                with contextlib.suppress(KubeError):  # it may be gone by now
                    await self._kube.annotate(item["kind"], item["metadata"]["name"], {_PAUSED: None})

    async def answer(self) -> None:
        """Answers every Stalled object that has asked for at least `_THOUGHT` seconds."""
        for item in await self._field.objects():
            reason = stalled(item)
            question = f"{item['metadata']['uid']} {reason} {condition(item, 'Stalled').get('message')}"
            if reason and time.monotonic() - self._asked.setdefault(question, time.monotonic()) > _THOUGHT:
                del self._asked[question]
                with contextlib.suppress(KubeError):
                    done = await self._answer(item, reason, condition(item, "Stalled")["message"])
                    self.answers.append(f"{item['metadata']['name']}: {reason}: {done}")

    async def _answer(self, item: Manifest, reason: str, message: str) -> str:
        kind, name = item["kind"], item["metadata"]["name"]
        annotations = item["metadata"].get("annotations", {})
        if reason == "CreateOutcomeUnknown" and _INTENT in annotations:
            return await self._say(item, json.loads(annotations[_INTENT]), message)
        if reason == "AdoptionRefused" and _ADOPT_ID in annotations:
            await self._kube.annotate(kind, name, {_ADOPT_ID: None})
            return "adopt-id removed"
        if _COMMAND in message:
            await self._field.workspace.obey(message)
            return message.partition(_COMMAND)[2]
        if reason in _NUDGED:
            await self._kube.annotate(kind, name, {f"{_ANNOTATION}{_NUDGED[reason]}": secrets.token_hex(4)})
            return _NUDGED[reason]
        assert reason in _GIVEN_UP, f"{name}: no page says what a person does about {reason}: {message}"
        await self._kube.delete(kind, name)
        return f"deleted ({message})"

    async def _say(self, item: Manifest, intent: Mapping[str, str], message: str) -> str:
        """Answers with what the cloud has under the intent's name, unless another object has it; returns the answer."""
        alive = () if _TAKEN in message else await self._field.books.alive()
        named = [one for one in alive if self._field.site.made[one] == intent["name"]]
        said = {_ADOPT_ID: named[0]} if named else {_ADOPT_ID: None, f"{_ANNOTATION}retry-create": intent["token"]}
        await self._kube.annotate(item["kind"], item["metadata"]["name"], dict(said))
        if named:
            self._hand(item, named[0])
        return str(said)

    def _hand(self, item: Manifest, *what: str | None) -> None:
        self._field.handed.update((item["metadata"]["uid"], one) for one in what if one)

    async def _found(self, name: str) -> Manifest | None:
        """Returns the object if it is desired and exists; not one whose end people asked for, perhaps by `abandon`."""
        item = await self._kube.find(kind_of(name), name) if name in self._field.wanted else None
        return item if item is not None and "deletionTimestamp" not in item["metadata"] else None

    async def _apply(self, act: Act) -> None:
        if act.object not in self._field.wanted:
            self._field.wanted[act.object] = _workload(act.object, act.other or ACCOUNTS[0])

    async def _delete(self, act: Act) -> None:
        if self._field.wanted.pop(act.object, None):
            await self._kube.delete(kind_of(act.object), act.object)

    async def _force_away(self, act: Act) -> None:
        await self._delete(act)
        await self._kube.patch(kind_of(act.object), act.object, {"metadata": {"finalizers": None}})

    async def _abandon(self, act: Act) -> None:
        await self._delete(act)
        await self._kube.annotate(kind_of(act.object), act.object, {f"{_ANNOTATION}abandon": "true"})

    async def _rename(self, act: Act) -> None:
        item = await self._found(act.object)
        if item is None or act.other in self._field.wanted:
            return
        renamed = {"name": act.other, "annotations": item["metadata"].get("annotations", {})}
        self._field.wanted[act.other] = {**written(item), "metadata": renamed}
        await self._delete(act)

    async def _copy(self, act: Act) -> None:
        item = await self._found(act.object)
        if item is None or act.other in self._field.wanted or await self._kube.find(item["kind"], act.other):
            return
        self._field.wanted[act.other] = written(item, act.other)
        made = await put_back(self._kube, item, act.other)
        self._hand(made, item["metadata"].get("annotations", {}).get(_ADOPT_ID))

    async def _scale(self, act: Act) -> None:
        await self._change(act.object, {"replicas": act.number})

    async def _recreate(self, act: Act) -> None:
        image = f"example.com/other:{act.number}"
        await self._change(act.object, {"image": image, "updateStrategy": {"type": "Recreate"}})

    async def _power(self, act: Act) -> None:
        await self._change(act.object, {"powerState": "Stopped" if act.do is Do.STOP else "Running"})

    async def _change(self, name: str, spec: Manifest) -> None:
        if name in self._field.wanted:
            self._field.wanted[name]["spec"] |= spec
            await self._kube.patch(kind_of(name), name, {"spec": spec})

    async def _pause(self, act: Act) -> None:
        if act.object in self._field.wanted:
            value = "true" if act.do is Do.PAUSE else None
            await self._kube.annotate(kind_of(act.object), act.object, {_PAUSED: value})

    async def _adopt(self, act: Act) -> None:
        """Adopts a resource that an account reports, or one of another object, which must be refused."""
        if act.object in self._field.wanted:
            return
        told = [(one["id"], name) for name, one in await self._field.told_by_accounts() if one.get("id")]
        others = [(one, ACCOUNTS[0]) for one in await self._field.books.alive()]
        prefix = "pod_" if kind_of(act.object) == "GpuPod" else "cluster_"
        candidates = [one for one in [*sorted(told), *others] if one[0].startswith(prefix)]
        if candidates:
            cloud_id, account = candidates[act.number % len(candidates)]
            wanted = _workload(act.object, account)
            wanted["metadata"]["annotations"] = {_ADOPT_ID: cloud_id}
            self._field.wanted[act.object] = wanted

    async def _move(self, act: Act) -> None:
        if act.object in self._field.wanted:
            wanted = self._field.wanted[act.object]
            await self._delete(act)
            self._field.wanted[act.object] = {
                **wanted,
                "metadata": {"name": act.object},
                "spec": wanted["spec"] | {"accountRef": {"name": act.other}},
            }

    async def _back_up(self, act: Act) -> None:
        item = await self._found(act.object)
        if item is not None:
            self._backups[act.object] = item

    async def _restore(self, act: Act) -> None:
        item = self._backups.get(act.object)
        if item is None or act.object in self._field.wanted or await self._kube.find(item["kind"], act.object):
            return
        self._field.wanted[act.object] = written(item)
        made = await put_back(self._kube, item, act.object, status=bool(act.number))
        annotations = item["metadata"].get("annotations", {})
        cloud_ids = annotations.get(_ADOPT_ID), item.get("status", {}).get("id")
        giver = given_by(json.loads(annotations.get(_INTENT, "{}")).get("name", ""))
        self._hand(made, *cloud_ids, uid_part(item["metadata"]["uid"]), giver)


def _workload(name: str, account: str) -> Manifest:
    make = gpu_pod if kind_of(name) == "GpuPod" else gpu_cluster
    return make(name, env=_ENV, accountRef={"name": account})


def written(item: Manifest, name: str = "") -> Manifest:
    """Returns the manifest as people wrote it, under its own or another name."""
    named = {"name": name or item["metadata"]["name"]}
    return {"apiVersion": item["apiVersion"], "kind": item["kind"], "metadata": named, "spec": dict(item["spec"])}
