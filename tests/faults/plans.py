"""A plan: which faults meet one run of a scenario, as a file that can be replayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self

from tests.faults.saved import Saved
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
class Plan(Saved):
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
    def disturbs(self) -> bool:
        """Whether anything goes wrong in it at all."""
        return bool(self.rules or self.webhooks or self.cloud)

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
        return {**asdict(self), "rules": [rule.as_json() for rule in self.rules]}

    @classmethod
    def from_json(cls, data: Json) -> Self:
        rules = tuple(Rule.from_json(one) for one in data["rules"])
        webhooks = tuple(WebhookFault(**one) for one in data["webhooks"])
        cloud = tuple(CloudFault(**one) for one in data.get("cloud", ()))
        return cls(
            data["name"], data["scenario"], rules, webhooks, Word(data["word"]), cloud, data.get("always", False)
        )
