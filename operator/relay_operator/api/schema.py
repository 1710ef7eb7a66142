"""What a model says about its Kubernetes schema beyond types and bounds."""

from pydantic import ConfigDict
from pydantic.config import JsonDict

VALIDATIONS = "x-kubernetes-validations"
PRESERVED = "x-kubernetes-preserve-unknown-fields"
OPEN_OBJECT: JsonDict = {"type": "object", PRESERVED: True}
"""An object with foreign fields, which the API server keeps as they are."""
PRINTABLE = (
    r"self.matches('^([^\\pC\\pZ]| )+$')",
    "leave out line breaks and what cannot be seen, such as a zero-width or a no-break space",
)
"""A rule for a text that people read; the cloud and its client refuse any other."""


def rules(*validations: tuple[str, str]) -> ConfigDict:
    """CEL rules on an object, each with a message that says what to do; merged into the model's config."""
    return ConfigDict(json_schema_extra=field_rules(*validations))


def field_rules(*validations: tuple[str, str]) -> JsonDict:
    """CEL rules on one field, for `Field(json_schema_extra=...)`."""
    return {VALIDATIONS: [{"rule": rule, "message": message} for rule, message in validations]}


def exactly_one(one: str, other: str) -> tuple[str, str]:
    """The rule that exactly one of two fields is set."""
    return f"has(self.{one}) != has(self.{other})", f"set exactly one of {one} and {other}"


def never_changed(path: str, otherwise: str) -> tuple[str, str]:
    """The rule that a required field, such as `vmRef.name`, never changes; `otherwise` says why, and what to do."""
    return f"self.{path} == oldSelf.{path}", f"{path.partition('.')[0]} cannot be changed{otherwise}"


def map_by(*keys: str) -> JsonDict:
    """A list whose items are identified by these keys, so that two writers can own different items."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


def as_set() -> JsonDict:
    """A list of unique items without an order."""
    return {"x-kubernetes-list-type": "set"}


def atomic() -> JsonDict:
    """A list with one owner, who replaces it as a whole."""
    return {"x-kubernetes-list-type": "atomic"}
