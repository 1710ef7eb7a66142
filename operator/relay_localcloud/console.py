"""The console at `/`: what there is, on one page that works without internet."""

from collections.abc import Iterable
from html import escape

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from sqlalchemy import literal, select

from relay_localcloud import attempts, tables
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.instants import timestamp
from relay_localcloud.lifecycle import clusters, workloads
from relay_localcloud.store import Tx

router = APIRouter(include_in_schema=False)

SHOWN = 50

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}
table{border-collapse:collapse;width:100%;margin-bottom:2rem}th,td{text-align:left;padding:.3rem .8rem .3rem 0}
th{border-bottom:1px solid #8888}td{border-bottom:1px solid #8883}code{font-size:.9em}
@media(prefers-color-scheme:dark){body{background:#16181d;color:#e6e6e6}a{color:#8ab4f8}}"""

_PAGE = """<!DOCTYPE html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>
<title>The local cloud</title><style>{style}</style>
<h1>The local cloud</h1><p>{clock} Everything it serves: <a href="/openapi.json">openapi.json</a>.</p>{sections}</html>
"""


@router.get("/", response_class=HTMLResponse)
async def console(cloud: CurrentCloud) -> HTMLResponse:
    """A page that is right when it is loaded, and loads again every five seconds."""
    state = cloud.clock.state
    with cloud.store.transaction() as tx:
        organizations = _organizations(tx)
        workloads_shown = [*_pods_and_vms(tx), *_clusters(tx)]
        deliveries = [
            (item["requestedAt"], item["eventType"], item["attempt"], item["statusCode"] or item["error"])
            for item in reversed(attempts.every(tx, None)[-SHOWN:])
        ]
        now = timestamp(tx.now)
    requests = [
        (timestamp(logged.at), logged.method, logged.path, logged.status)
        for logged in reversed(cloud.requests.newest(SHOWN))
    ]
    sections = (
        _section("Organizations", ("id", "name", "created"), organizations),
        _section("Workloads", ("id", "kind", "name", "status", "reason", "node", "organization"), workloads_shown),
        _section("Webhook attempts", ("at", "event", "attempt", "outcome"), deliveries),
        _section("Requests", ("at", "method", "path", "status"), requests),
    )
    clock = f"Its clock shows <code>{now}</code> ({state.mode}, {state.rate:g} seconds a second)."
    return HTMLResponse(_PAGE.format(style=_STYLE, clock=clock, sections="".join(sections)))


def _organizations(tx: Tx) -> list[tuple[object, ...]]:
    organization = tables.organizations.c
    query = select(organization.id, organization.name, organization.created_at).order_by(organization.created_at)
    return [(row.id, row.name, timestamp(row.created_at)) for row in tx.connection.execute(query.limit(SHOWN))]


def _pods_and_vms(tx: Tx) -> list[tuple[object, ...]]:
    row = workloads.workloads.c
    query = select(row.id, row.kind, row.name, row.status, row.status_reason, row.node_id, row.organization_id)
    query = query.where(row.terminated_at.is_(None)).order_by(row.sequence.desc()).limit(SHOWN)
    return [tuple(shown) for shown in tx.connection.execute(query)]


def _clusters(tx: Tx) -> list[tuple[object, ...]]:
    row = clusters.clusters.c
    counts = row.active_replicas.concat("/").concat(row.replica_count).concat(" replicas")
    query = select(row.id, literal("cluster"), row.name, row.status, row.status_reason, counts, row.organization_id)
    query = query.where(row.terminated_at.is_(None)).order_by(row.sequence.desc()).limit(SHOWN)
    return [tuple(shown) for shown in tx.connection.execute(query)]


def _section(title: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{lines or '<tr><td>none yet</td></tr>'}</table>"


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"
