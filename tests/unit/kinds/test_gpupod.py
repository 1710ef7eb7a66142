"""Which keys a GpuPod is made with: written out, read, those of SshKeys, and what is spelled as it used to be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.intent import changed_fields, fingerprints
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.gpupod import GpuPod, GpuPods
from relay_wire.vms import VmRecord
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent

if TYPE_CHECKING:
    from pydantic import JsonValue

ADA, BOB = (ObjectKey("SshKey", "team-a", name) for name in ("ada", "bob"))
INTENT = intent("team-a-train")
SECRET: JsonValue = {"secretKeyRef": {"name": "team", "key": "ada"}}
CONFIG: JsonValue = {"configMapKeyRef": {"name": "team", "key": "bob"}, "optional": True}
BEFORE = "sshKeyRefs=66532a58,sshKeys=4f53cda1"
"""Fingerprints of SECRET and CONFIG, as a release wrote them that had no other `sshKeyRefs`."""
PODS = GpuPods()


def pod(**spec: JsonValue) -> GpuPod:
    return GpuPod.model_validate({"metadata": {"name": "train", "namespace": "team-a"}, "spec": {"image": "x", **spec}})


async def test_what_is_sent_is_every_key() -> None:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "vm_1", "name": "team-a-train", "status": "deploying"}'))
        await PODS.create(cloud, pod(sshKeys=["ssh-ed25519 A"]), INTENT, Inputs(ssh_keys=("ssh-ed25519 B",)))
        assert json.loads(server.seen[0].body)["sshKeys"] == ["ssh-ed25519 A", "ssh-ed25519 B"]


def test_keys_are_those_of_secrets_and_config_maps_in_either_spelling_and_those_of_ssh_keys() -> None:
    obj = pod(sshKeyRefs=[SECRET, {"name": "ada"}, {"name": "bob"}], sshKeysFrom=[CONFIG])
    refs = PODS.input_refs(obj)
    first, second = refs.ssh_keys
    assert first.secret_key_ref is not None
    assert (first.secret_key_ref.name, first.secret_key_ref.key, first.optional) == ("team", "ada", False)
    assert second.config_map_key_ref is not None
    assert (second.config_map_key_ref.key, second.optional) == ("bob", True)
    assert refs.any
    assert refs.registered == PODS.references(obj) == (ADA, BOB)
    assert PODS.input_refs(pod(sshKeyRefs=[{"name": "ada"}])).any
    assert not PODS.input_refs(pod()).any


def test_no_key_is_put_into_a_pod_that_lives() -> None:
    record = VmRecord(id="vm_1", name="team-a-train", status="running")
    assert PODS.giving(pod(sshKeyRefs=[{"name": "ada"}]), record, {ADA: "ssh_1"}) == ()


def test_what_was_made_with_the_former_spelling_is_unchanged_under_this_release() -> None:
    assert changed_fields(BEFORE, PODS.immutable(pod(sshKeyRefs=[SECRET, CONFIG]))) == ()
    assert changed_fields(BEFORE, PODS.immutable(pod(sshKeyRefs=[SECRET]))) == ("sshKeyRefs",)


def test_other_keys_are_told_by_the_field_that_names_them_and_another_order_is_none() -> None:
    made = fingerprints(PODS.immutable(pod(sshKeyRefs=[{"name": "ada"}, {"name": "bob"}], sshKeysFrom=[SECRET])))
    swapped = pod(sshKeyRefs=[{"name": "bob"}, {"name": "ada"}], sshKeysFrom=[SECRET])
    assert changed_fields(made, PODS.immutable(swapped)) == ()
    assert changed_fields(made, PODS.immutable(pod(sshKeyRefs=[{"name": "ada"}], sshKeysFrom=[SECRET]))) == (
        "sshKeyRefs",
    )
    moved = pod(sshKeyRefs=[{"name": "ada"}, {"name": "bob"}], sshKeysFrom=[CONFIG])
    assert changed_fields(made, PODS.immutable(moved)) == ("sshKeysFrom",)
