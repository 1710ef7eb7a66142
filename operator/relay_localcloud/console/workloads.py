"""The page of workloads: pods, VMs and clusters with their replicas."""

from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import RowMapping, Table, or_, select
from starlette.responses import Response

from relay_localcloud.capacity.catalog import GPU_MODELS
from relay_localcloud.clusters.clusters import clusters, replicas
from relay_localcloud.console import tallies
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, identifier, links, pages, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.view import CurrentView
from relay_localcloud.console.wording import counted, hourly, moment, pill
from relay_localcloud.http.routing import Router
from relay_localcloud.workloads.records import PRODUCTION, endpoint_url
from relay_localcloud.workloads.workloads import VM, workloads

router = Router()

PATH: Final = "/console/workloads"
ON_A_PAGE: Final = 25
HEADS: Final = ("Name", "Status", "GPUs", "Node", "Price", "Endpoint", "Created")
_FILTERS: Final = ("running", "deploying", "provisioning", "degraded", "interrupted", "stopped", "failed", "terminated")
_REPLICAS_SHOWN: Final = 50
CREATE_HINT: Final = (
    "Nothing here yet. Create a pod with the API, POST /v1/pods, or apply a GpuPod to a cluster whose operator uses "
    "this cloud."
)


@router.get(PATH)
async def workloads_page(view: CurrentView) -> Response:
    """Pods, VMs and clusters, newest first, those of one state where asked."""
    return view.answer("Workloads", _content)


def newest(reading: Reading, count: int) -> list[Row]:
    """The newest live workloads of every kind."""
    parts = [_rows(reading, workloads, count), _rows(reading, clusters, count)]
    found = sorted((row for part in parts for row in part), key=lambda row: int(row["created_at"]), reverse=True)
    return [_shown(reading, row) for row in found[:count]]


def _content(reading: Reading) -> Html:
    requested = reading.requested
    states = tallies.live(reading.tx, requested.organization_id)
    wanted = requested.word("status")
    find = element("input", id="find", name="find", value=requested.word("find"), type="search", spellcheck="false")
    filters = [("All live", requested.to(PATH), wanted is None)]
    filters += [(word, requested.to(PATH, status=word), wanted == word) for word in _FILTERS]
    return fragment(
        element("p", tallies.sentence(states), class_="lead", aria_live="polite"),
        links("Which workloads", filters),
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
    requested = reading.requested
    before, status, find = requested.number(f"{key}-before"), requested.word("status"), requested.word("find")
    found = _rows(reading, source, ON_A_PAGE + 1, before=before, status=status, find=find)
    rows = [_shown(reading, row) for row in found[:ON_A_PAGE]]
    older = None
    if len(found) > ON_A_PAGE:
        place = {f"{key}-before": int(found[ON_A_PAGE - 1]["sequence"])}
        older = f"{requested.to(PATH, status=status, **place)}#{key}"
    first = None if before is None else f"{requested.to(PATH, status=status)}#{key}"
    return section(
        title,
        table(title, HEADS, rows, _empty(status, find)),
        pages(first, older),
        key=key,
    )


def _empty(status: str | None, find: str | None) -> str:
    if find is not None:
        return f"None has the name or id {find}."
    return CREATE_HINT if status is None else f"None is {status}."


def _rows(
    reading: Reading,
    source: Table,
    count: int,
    *,
    before: int | None = None,
    status: str | None = None,
    find: str | None = None,
) -> list[RowMapping]:
    query = select(source).order_by(source.c.sequence.desc()).limit(count)
    query = query.where(source.c.terminated_at.is_(None) if status is None else source.c.status == status)
    if reading.requested.organization_id is not None:
        query = query.where(source.c.organization_id == reading.requested.organization_id)
    if find is not None:
        query = query.where(or_(source.c.id == find, source.c.name == find))
    if before is not None:
        query = query.where(source.c.sequence < before)
    return list(reading.tx.connection.execute(query).mappings())


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
    return fragment(
        element("strong", str(row["name"])),
        element("small", kind, " ", identifier(str(row["id"]))),
        reading.owner(row["organization_id"]),
    )


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
