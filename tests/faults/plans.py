"""A plan: which faults meet one run of a scenario, as a file that can be replayed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from tests.support.faultrules import Deed, Hold, Json, Rule


class Word(StrEnum):
    """What a person says once an object is Stalled with CreateOutcomeUnknown."""

    NOTHING = ""
    RETRY_CREATE = "retry-create"
    ADOPT_ID = "adopt-id"
    AS_FOUND = "as-found"  # whichever the cloud's books say, if somebody is asked at all


@dataclass(frozen=True)
class WebhookFault:
    """A fault of the cloud on webhooks (`lose`, `duplicate`, `delaySeconds`, `reorder`), `count` times or always."""

    effect: str
    value: float | bool = True
    count: int | None = None


@dataclass(frozen=True)
class CloudFault:
    """A fault of the cloud on an operation (`staleSeconds`, of the cloud's clock), until the object has settled."""

    operation: str
    effect: str
    value: float


@dataclass(frozen=True)
class Plan:
    """One scenario and everything that goes wrong in it.

    `word`: it is said, and must have to be said, but for AS_FOUND. `always`: it is in every sample.
    """

    name: str
    scenario: str
    rules: tuple[Rule, ...] = ()
    webhooks: tuple[WebhookFault, ...] = ()
    word: Word = Word.NOTHING
    cloud: tuple[CloudFault, ...] = ()
    always: bool = False

    @property
    def crashes(self) -> bool:
        """Whether the operator is ended in mid-work, and with it what only it remembered."""
        deeds = {rule.action.deed for rule in self.rules if isinstance(rule.action, Hold)}
        return bool(deeds & {Deed.KILL_OPERATOR, Deed.TERMINATE_OPERATOR})

    def in_any_state(self) -> Plan:
        """The same, whatever the state in which its requests are sent."""
        name = f"{self.name}, in any state"
        return replace(self, name=name, rules=tuple(replace(rule, state="*") for rule in self.rules))

    def as_json(self) -> Json:
        """A form that `from_json` reads."""
        return {**asdict(self), "rules": [rule.as_json() for rule in self.rules]}

    @classmethod
    def from_json(cls, data: Json) -> Plan:
        """Reads what `as_json` wrote."""
        rules = tuple(Rule.from_json(one) for one in data["rules"])
        webhooks = tuple(WebhookFault(**one) for one in data["webhooks"])
        cloud = tuple(CloudFault(**one) for one in data.get("cloud", ()))
        return cls(
            data["name"], data["scenario"], rules, webhooks, Word(data["word"]), cloud, data.get("always", False)
        )

    def save(self, folder: Path) -> Path:
        """Writes it into the folder and answers the file."""
        path = folder / f"{self.name.replace(' ', '-').replace('/', '-')}.json"
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Reads what `save` wrote."""
        return cls.from_json(json.loads(path.read_text()))
