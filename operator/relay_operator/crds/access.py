"""What the operator may do in the cluster: without wildcards, and without listing or watching Secrets."""

from collections.abc import Iterable
from dataclasses import dataclass

from relay_operator.api.definition import Definition
from relay_operator.api.meta import GROUP
from relay_operator.crds.structural import Schema

LEASE_NAME_TEMPLATE = "{{ .Values.leaderElection.leaseName }}"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a Role."""

    why: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def as_json(self) -> Schema:
        rule: Schema = {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }
        return rule | {"resourceNames": list(self.names)} if self.names else rule


def own_kinds(definitions: Iterable[Definition]) -> tuple[Rule, ...]:
    """Rights on the kinds that people write."""
    known = tuple(definition for definition in definitions if not definition.read_only)
    mortal = tuple(
        definition.plural
        for definition in known
        if {"lifetime", "ttl_seconds_after_finished"} & definition.spec.model_fields.keys()
    )
    expiry = Rule("lifetime.ttlSecondsAfterStopped and ttlSecondsAfterFinished", GROUP, mortal, ("delete",))
    made = tuple(definition.creates for definition in known if definition.creates is not None)
    making = Rule("what schedules start, replace and clear away", GROUP, made, ("create", "delete"))
    return (*keeping(known), *((expiry,) if mortal else ()), *((making,) if made else ()))


def keeping(definitions: Iterable[Definition]) -> tuple[Rule, ...]:
    """Rights to watch objects and to release them."""
    objects = tuple(definition.plural for definition in definitions)
    return (
        Rule("the intent annotation and the finalizer", GROUP, objects, ("get", "list", "watch", "patch")),
        Rule("what the cloud says", GROUP, tuple(f"{plural}/status" for plural in objects), ("patch",)),
    )


def for_the_end_of_namespaces(definitions: Iterable[Definition]) -> tuple[Rule, ...]:
    """Rights that outlive a watched namespace's own Role, which is deleted before the objects' finalizers are gone."""
    return keeping(definition for definition in definitions if definition.namespaced)


def in_watched_namespaces(definitions: Iterable[Definition]) -> tuple[Rule, ...]:
    """Rights in every namespace whose objects are reconciled."""
    return (
        *own_kinds(definition for definition in definitions if definition.namespaced),
        Rule("keys and env are read; connections, API keys and webhook secrets are written", "", ("secrets",), _KEEP),
        Rule(
            "env and batch input are read; connections, answers, who spent what are kept",
            "",
            ("configmaps",),
            _KEEP,
        ),
        Rule("the place that a batch claimed and had no answers for", "", ("configmaps",), ("delete",)),
        Rule("what happened, for people", "events.k8s.io", ("events",), ("create",)),
    )


def for_cluster_accounts(definitions: Iterable[Definition]) -> tuple[Rule, ...]:
    """Rights outside of namespaces, for accounts that several namespaces share."""
    known = tuple(definition for definition in definitions if not definition.namespaced)
    catalog = tuple(definition.plural for definition in known if definition.read_only)
    return (
        *own_kinds(known),
        Rule("what the cloud sells, made for people to read", GROUP, catalog, ("list", "create", "delete")),
        Rule("what of it is free", GROUP, tuple(f"{plural}/status" for plural in catalog), ("patch",)),
        Rule("the labels that allowedNamespaces selects", "", ("namespaces",), ("get",)),
    )


def in_own_namespace() -> tuple[Rule, ...]:
    """Rights in the operator's own namespace."""
    leases = "coordination.k8s.io"
    return (
        Rule("leader election", leases, ("leases",), ("get", "patch"), (LEASE_NAME_TEMPLATE,)),
        Rule("the first replica makes the Lease; a create has no name to restrict", leases, ("leases",), ("create",)),
        Rule("the label that the webhook Service selects", "", ("pods",), ("patch",)),
        Rule("keys and webhook secrets of cluster-wide accounts", "", ("secrets",), _KEEP),
        Rule(
            "what vanished with something in the cloud; who spent what",
            "",
            ("configmaps",),
            (*_KEEP, "list", "delete"),
        ),
    )


def for_people(definitions: Iterable[Definition], *, editing: bool) -> tuple[Rule, ...]:
    """Rights of people who may view, or edit, a namespace."""
    everything = tuple(definitions)
    known = tuple(definition for definition in everything if definition.namespaced)
    objects = tuple(definition.plural for definition in known)
    if not editing:
        catalog = tuple(definition.plural for definition in everything if definition.read_only)
        return (Rule("seeing", GROUP, (*objects, *catalog), ("get", "list", "watch")),)
    scaled = tuple(f"{definition.plural}/scale" for definition in known if definition.scaled_by)
    return (
        Rule("writing", GROUP, objects, ("create", "update", "patch", "delete", "deletecollection")),
        Rule("kubectl scale and autoscalers", GROUP, scaled, ("get", "update", "patch")),
    )


_KEEP = ("get", "create", "patch")
