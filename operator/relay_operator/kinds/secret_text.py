"""A text that a create sends, and that one key of a Secret holds. Pure; no sentence quotes what a Secret holds."""

from dataclasses import dataclass

from relay_operator.api.references import SecretKeyRef, ValueSource
from relay_operator.flows.managed.resource import InputRefs, Inputs


@dataclass(frozen=True, slots=True)
class SecretText:
    """The text that one field of a spec leads to."""

    field: str
    """What people call it: `grantFrom`."""

    def refs(self, ref: SecretKeyRef | None) -> InputRefs:
        """What is read for it."""
        return InputRefs() if ref is None else InputRefs(texts={self.field: ValueSource(secret_key_ref=ref)})

    def of(self, inputs: Inputs) -> str:
        """The text without white space around it; empty if there is none."""
        return inputs.texts.get(self.field, "").strip()

    def refused(self, ref: SecretKeyRef, wrong: str) -> str:
        """The sentence that says what is wrong with it, and where."""
        return f"{self.field}: the key {ref.key} of the Secret {ref.name} {wrong}"
