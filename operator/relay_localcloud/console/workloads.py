"""The page of workloads: pods, VMs and clusters with their replicas."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import RowMapping, Table, or_, select

from relay_localcloud.capacity.catalog import GPU_MODELS
from relay_localcloud.clusters.clusters import clusters, replicas
from relay_localcloud.console import tallies
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, choices, identifier, named, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.wording import counted, hourly, moment, pill
from relay_localcloud.workloads.records import PRODUCTION, endpoint_url
from relay_localcloud.workloads.workloads import VM, workloads

PATH: Final = "/console/workloads"
ON_A_PAGE: Final = 25
HEADS: Final = ("Name", "Status", "GPUs", "Node", "Price", "Endpoint", "Created")
_STATES: Final = ("running", "deploying", "provisioning", "degraded", "interrupted", "stopped", "failed", "terminated")
_FILTERS: Final[Mapping[str | None, str]] = {None: "All live", **{word: word for word in _STATES}}
_REPLICAS_SHOWN: Final = 50
CREATE_HINT: Final = (
    "Nothing here yet. Create a pod with the API, POST /v1/pods, or apply a GpuPod to a cluster whose operator uses "
    "this cloud."
)


def newest(reading: Reading, count: int) -> list[Row]:
    """The newest live workloads of every kind."""
    parts = [reading.newest(source, count, source.c.terminated_at.is_(None)) for source in (workloads, clusters)]
    found = sorted((row for part in parts for row in part), key=lambda row: int(row["created_at"]), reverse=True)
    return [_shown(reading, row) for row in found[:count]]


def content(reading: Reading) -> Html:
    """Pods, VMs and clusters, newest first, those of one state where asked."""
    requested = reading.requested
    states = tallies.live(reading.tx, requested.organization_id)
    find = element("input", id="find", name="find", value=requested.word("find"), type="search", spellcheck="false")
    return fragment(
        element("p", tallies.sentence(states), class_="lead", aria_live="polite"),
        choices(requested, "Which workloads", "status", _FILTERS, requested.word("status")),
        element(
            "form",
            element("label", "Name or id", for_="find"),
            find,
            element("button", "Find", type="submit"),
            element("input", type="hidden", name="org", value=requested.organization_id or ""),
            action=PATH,
            class_="find",
        ),
        _list(reading, "Pods and VMs", workloads, "pods"),
        _list(reading, "Clusters", clusters, "clusters"),
    )


def _list(reading: Reading, title: str, source: Table, key: str) -> Html:
    """One kind, a page of it."""
    status, find = reading.requested.word("status"), reading.requested.word("find")
    conditions = [source.c.terminated_at.is_(None) if status is None else source.c.status == status]
    if find is not None:
        conditions.append(or_(source.c.id == find, source.c.name == find))
    found, others = reading.page(source, ON_A_PAGE, *conditions, place=f"{key}-before", status=status)
    rows = [_shown(reading, row) for row in found]
    return section(title, table(title, HEADS, rows, _empty(status, find)), others, key=key)


def _empty(status: str | None, find: str | None) -> str:
    if find is not None:
        return f"None has the name or id {find}."
    return CREATE_HINT if status is None else f"None is {status}."


def _shown(reading: Reading, row: RowMapping) -> Row:
    return _cluster(reading, row) if "replica_count" in row else _pod_or_vm(reading, row)


def _pod_or_vm(reading: Reading, row: RowMapping) -> Row:
    kind = "VM" if row["kind"] == VM else "Pod"
    host = f"{row['http_port']}-{row['label']}" if row["capability_tier"] == PRODUCTION else row["label"]
    access = "public" if row["public"] else "needs a key"
    ended = row["terminated_at"] is not None
    return Row(
        row["id"],
        (
            _name(reading, row, kind),
            _status(row),
            gpus(row["gpu_count"], row["gpu_model_id"], row["resource_size"]),
            _node(reading.requested, row["node_id"]),
            hourly(row["price_per_hour_cents"]),
            None if ended else _endpoint(endpoint_url(host, reading.cloud.gateway_url), access),
            moment(row["created_at"], reading.tx.now),
        ),
    )


def _cluster(reading: Reading, row: RowMapping) -> Row:
    ended = row["terminated_at"] is not None
    counts = f"{row['active_replicas']} of {row['replica_count']} replicas healthy"
    return Row(
        row["id"],
        (
            _name(reading, row, "Cluster"),
            _status(row),
            fragment(
                gpus(row["gpus_per_replica"], row["gpu_model_id"], row["resource_size"]),
                element("small", f"for each of {counted(row['replica_count'], 'replica')}"),
            ),
            fragment(element("span", counts), None if ended else _replicas(reading, row["id"])),
            fragment(element("span", hourly(row["replica_price_cents"])), element("small", "a replica")),
            None if ended else _endpoint(endpoint_url(row["label"], reading.cloud.gateway_url), "needs a key"),
            moment(row["created_at"], reading.tx.now),
        ),
    )


def _replicas(reading: Reading, cluster_id: str) -> Html | None:
    replica = replicas.c
    query = select(replica.id, replica.status, replica.node_id).where(
        replica.cluster_id == cluster_id, replica.terminated_at.is_(None)
    )
    found = reading.tx.connection.execute(query.order_by(replica.sequence).limit(_REPLICAS_SHOWN + 1)).all()
    items = [
        element("li", identifier(row.id), " ", pill(row.status), " ", _node(reading.requested, row.node_id), id=row.id)
        for row in found[:_REPLICAS_SHOWN]
    ]
    if not items:
        return None
    more = element("li", "…") if len(found) > _REPLICAS_SHOWN else None
    return element("details", element("summary", "Replicas"), element("ul", items, more), id=f"{cluster_id}-replicas")


def gpus(count: int, model_id: str | None, size: str | None) -> Html:
    """What a workload has of the hardware."""
    model = GPU_MODELS.get(model_id or "")
    if model is None or not count:
        return element("span", f"CPU, {size or 'small'}")
    return element("span", f"{count} x {model.id}", title=model.name)


def _name(reading: Reading, row: RowMapping, kind: str) -> Html:
    return named(row["name"], row["id"], reading.owner(row["organization_id"]), kind=f"{kind} ")


def _status(row: RowMapping) -> Html:
    word = str(row["status"])
    if row.get("kind") == VM and word == "deploying":
        word = "provisioning"
    reason = row["status_reason"]
    return fragment(pill(word), element("small", str(reason), class_="reason") if reason else None)


def _node(requested: Requested, node_id: str | None) -> Html | None:
    if node_id is None:
        return None
    return element("a", node_id, class_="long", title=node_id, href=requested.to("/console/nodes", node=node_id))


def _endpoint(url: str, access: str) -> Html:
    # Without its scheme, which is the page's own.
    host = urlsplit(url).netloc
    return fragment(
        element("a", host, href=f"//{host}/", rel="noreferrer", class_="long", title=host), element("small", access)
    )
