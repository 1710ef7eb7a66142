"""Every operation of `/openapi.json`, called by schemathesis: the answers are those that are described, never a 500.

What stands in paths and a few fields of bodies is narrowed to what exists, so that most calls get past the address.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.everything import PUBLIC_KEY, Everything, everything

if TYPE_CHECKING:
    from schemathesis.engine import events

    from tests.localcloud.conftest import StartServer

SEED = 20261121
PHASES = ("coverage", "fuzzing", "stateful")  # the description has no examples
QUICK_PHASES = ("fuzzing", "stateful")
REFUSALS = ["400", "401", "402", "403", "404", "405", "409", "410", "413", "422", "429", "503"]
CHECKS: dict[str, Any] = {
    # Capacity, payments and models that are down are 503, and 502 is a model server that answers badly (section 7).
    "not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", "502", "503"]},
    "negative_data_rejection": {"expected-statuses": REFUSALS},
    # What fits each field and still makes no sense together, or has no funds, is refused.
    "positive_data_acceptance": {"enabled": False},
    # DELETE .../webhooks/create is the deletion of a webhook of that name, which 405 there says as well.
    "allow_header_conformance": {"enabled": False},
}
MEANINGLESS = {("POST /v1/files", "negative_data_rejection")}
"""What a check finds although it is right: the bytes of a number are a file like any other."""
KNOWN_FIELDS: dict[str, list[str]] = {
    "gpuModelId": ["h100", "a100", "l40s", "rtx4090"],
    "publicKey": [PUBLIC_KEY],
    "model": ["echo", "count", "busy", "full"],
    "publicModelId": ["echo"],
    "servedModelId": ["echo"],
}


@dataclass
class Findings:
    """What a run called and what it found."""

    cases: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, event: events.ScenarioFinished) -> None:
        recorder = event.recorder
        self.cases += len(recorder.cases)
        self.operations |= {node.value.operation.label for node in recorder.cases.values()}
        self.statuses.update(call.response.status_code for call in recorder.interactions.values() if call.response)
        for checks in recorder.checks.values():
            for check in checks:
                if check.failure_info is not None:
                    failure = check.failure_info.failure
                    told = f"{failure.title}: {failure.message}\n{check.failure_info.code_sample}"
                    where = (str(failure.operation), check.name)
                    if where not in MEANINGLESS:
                        self.problems.setdefault(where, told)


async def narrowed(known: Everything, port: str) -> dict[str, Any]:
    """The description of one port's operations, with the parameters of paths and some fields as what exists."""
    document = copy.deepcopy(known.document)
    document["paths"] = {}
    for operation in known.operations():
        if operation.url == known.organization.server.ready[port]:
            described = copy.deepcopy(operation.description)
            path = await known.path(operation)
            for parameter in described.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = {"type": "string", "enum": [path[parameter["name"]]]}
            # A log that is followed ends with its VM, so nobody could wait for the answer.
            if "parameters" in described:
                described["parameters"] = [each for each in described["parameters"] if each["name"] != "follow"]
            document["paths"].setdefault(operation.template, {})[operation.method.lower()] = described
    for schema in document["components"]["schemas"].values():
        for name in schema.get("properties", {}).keys() & KNOWN_FIELDS.keys():
            exists = {"type": "string", "enum": KNOWN_FIELDS[name]}
            optional = name not in schema.get("required", ())
            schema["properties"][name] = {"anyOf": [exists, {"type": "null"}]} if optional else exists
    return document


def played(document: dict[str, Any], url: str, credential: str, examples: int, phases: tuple[str, ...]) -> Findings:
    """Everything that schemathesis thinks of, with a credential; `examples` an operation and a phase."""
    # It takes longer to load than the rest of a worker, and one worker needs it.
    import schemathesis  # noqa: PLC0415
    from schemathesis.config import SchemathesisConfig  # noqa: PLC0415
    from schemathesis.engine import events, from_schema  # noqa: PLC0415

    config = SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "base-url": url,
            "headers": {"Authorization": f"Bearer {credential}"},
            "continue-on-failure": True,
            "request-timeout": 60,
            "generation": {"deterministic": True, "max-examples": examples, "no-shrink": True, "database": "none"},
            "checks": CHECKS,
            "phases": {
                "examples": {"enabled": False},
                "coverage": {"enabled": "coverage" in phases, "unexpected-methods": ["put", "trace"]},
                "fuzzing": {"enabled": "fuzzing" in phases},
                "stateful": {"enabled": "stateful" in phases},
            },
        }
    )
    findings = Findings()
    for event in from_schema(schemathesis.openapi.from_dict(document, config=config)).execute():
        match event:
            case events.ScenarioFinished():
                findings.add(event)
            case events.NonFatalError() | events.FatalError():
                findings.problems.setdefault((getattr(event, "label", "run"), "error"), str(vars(event)))
            case _:
                pass
    return findings


@dataclass(frozen=True)
class Run:
    """A port's operations, with this credential; `examples` an operation and a phase, `least` cases in all."""

    port: str
    credential: str
    examples: int
    phases: tuple[str, ...]
    least: int


RUNS = {
    "management with a key": Run("managementUrl", "apiKey", 60, PHASES, 1000),
    "management with a session": Run("managementUrl", "userSessionToken", 40, QUICK_PHASES, 1000),
    "inference with a key": Run("inferenceUrl", "apiKey", 100, PHASES, 1000),
}
BRIEF = {
    "management with a key": Run("managementUrl", "apiKey", 2, QUICK_PHASES, 300),
    "management with a session": Run("managementUrl", "userSessionToken", 2, QUICK_PHASES, 300),
    "inference with a key": Run("inferenceUrl", "apiKey", 5, QUICK_PHASES, 100),
}
"""With every change: the phase "coverage", each bound of each field, takes most of the time."""


def check(start_server: StartServer, asked: Run) -> None:
    """Play a run on a cloud of its own: it finds nothing, and there is no operation that it leaves out."""
    server = start_server("--ephemeral", "--clock", "frozen", "--list-vms")
    known = asyncio.run(everything(server))
    document = asyncio.run(narrowed(known, asked.port))
    token = known.organization.api_key if asked.credential == "apiKey" else known.organization.user_session_token
    findings = played(document, server.ready[asked.port], token, asked.examples, asked.phases)
    assert not findings.problems, "\n\n".join(f"{key}: {told}" for key, told in findings.problems.items())
    assert "Traceback" not in server.log
    described = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert described <= findings.operations
    assert findings.cases >= asked.least


@pytest.mark.parametrize("name", BRIEF)
def test_what_schemathesis_thinks_of_is_answered_as_described(start_server: StartServer, name: str) -> None:
    check(start_server, BRIEF[name])


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_what_schemathesis_thinks_of_at_length_is_answered_as_described(start_server: StartServer, name: str) -> None:
    check(start_server, RUNS[name])
