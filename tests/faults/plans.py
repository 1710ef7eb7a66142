"""A plan: the faults of one run of a scenario, as plain data that can be saved and replayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Self

from tests.faults.saved import Saved
from tests.support.faultrules import Deed, Hold, Json, Rule


class Word(StrEnum):
    """A person's answer to an object that is Stalled with CreateOutcomeUnknown: the annotation to set."""

    NOTHING = ""
    RETRY_CREATE = "retry-create"
    ADOPT_ID = "adopt-id"
    AS_FOUND = "as-found"  # whichever fits the cloud's billing, if the object asks at all


@dataclass(frozen=True)
class WebhookFault:
    """A fault of the cloud on webhooks (`lose`, `duplicate`, `delaySeconds`, `reorder`); `count` None means always."""

    effect: str
    value: float | bool = True
    count: int | None = None


@dataclass(frozen=True)
class CloudFault:
    """A fault of the cloud on an operation (`staleSeconds` of the cloud's clock), until the object has settled."""

    operation: str
    effect: str
    value: float


@dataclass(frozen=True)
class Plan(Saved):
    """One scenario and all its faults.

    `word` is the person's answer; except with AS_FOUND, the object must ask for it. `always`: every sample has it.
    `waits_long`: nothing may be written even in the time of several periodic looks. `quiet`: seconds in which nothing
    may be written, if more than that. `within`: seconds from the last fault or act of people within which everything
    must be as it should be, on a busy machine too.
    """

    name: str
    scenario: str
    rules: tuple[Rule, ...] = ()
    webhooks: tuple[WebhookFault, ...] = ()
    word: Word = Word.NOTHING
    cloud: tuple[CloudFault, ...] = ()
    always: bool = False
    waits_long: bool = False
    quiet: float = 0.0
    within: float = 150.0

    @property
    def disturbs(self) -> bool:
        """Whether the plan has any fault."""
        return bool(self.rules or self.webhooks or self.cloud)

    @property
    def crashes(self) -> bool:
        """Whether a rule ends the operator, which then loses its memory."""
        deeds = {rule.action.deed for rule in self.rules if isinstance(rule.action, Hold)}
        return bool(deeds & {Deed.KILL_OPERATOR, Deed.TERMINATE_OPERATOR})

    def in_any_state(self) -> Plan:
        """Returns the same plan with rules that apply in any state."""
        name = f"{self.name}, in any state"
        return replace(self, name=name, rules=tuple(replace(rule, state="*") for rule in self.rules))

    def as_json(self) -> Json:
        return {**asdict(self), "rules": [rule.as_json() for rule in self.rules]}

    @classmethod
    def from_json(cls, data: Json) -> Self:
        rules = tuple(Rule.from_json(one) for one in data["rules"])
        webhooks = tuple(WebhookFault(**one) for one in data["webhooks"])
        cloud = tuple(CloudFault(**one) for one in data.get("cloud", ()))
        read = {"rules": rules, "webhooks": webhooks, "word": Word(data["word"]), "cloud": cloud}
        return cls(**{**data, **read})
