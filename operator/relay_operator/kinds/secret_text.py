"""A text that a create sends and one key of a Secret holds. Pure; no message quotes a Secret."""

from dataclasses import dataclass

from relay_operator.api.references import SecretKeyRef, ValueSource
from relay_operator.flows.managed.resource import InputRefs, Inputs


@dataclass(frozen=True, slots=True)
class SecretText:
    """The text that one field of a spec refers to."""

    field: str
    """The field's name: `grantFrom`."""

    def refs(self, ref: SecretKeyRef | None) -> InputRefs:
        """What to read for it."""
        return InputRefs() if ref is None else InputRefs(texts={self.field: ValueSource(secret_key_ref=ref)})

    def of(self, inputs: Inputs) -> str:
        """The text without surrounding white space; empty if there is none."""
        return inputs.texts.get(self.field, "").strip()

    def refused(self, ref: SecretKeyRef, wrong: str) -> str:
        """A message that says what is wrong with the text, and where."""
        return f"{self.field}: the key {ref.key} of the Secret {ref.name} {wrong}"
