"""The signing secrets of deliveries, in memory, since the receiver reads them before anything is proven."""

from collections.abc import Callable
from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey


@dataclass(slots=True)
class _Held:
    current: str = field(repr=False)
    former: str = field(default="", repr=False)
    former_until: float = 0.0


@dataclass(slots=True)
class SigningSecrets:
    """One secret per account; also the former one, for `overlap` seconds after a roll."""

    overlap: float
    clock: Callable[[], float]
    _held: dict[ObjectKey, _Held] = field(default_factory=dict, repr=False)

    def put(self, account: ObjectKey, secret: str) -> None:
        """Set the secret that the cloud signs with from now on."""
        held = self._held.get(account)
        if held is None:
            self._held[account] = _Held(secret)
        elif held.current != secret:
            self._held[account] = _Held(secret, held.current, self.clock() + self.overlap)

    def of(self, account: ObjectKey) -> tuple[str, ...] | None:
        """The accepted secrets, the current one first; None without a subscription."""
        held = self._held.get(account)
        if held is None:
            return None
        return (held.current, held.former) if held.former and self.clock() < held.former_until else (held.current,)

    def drop(self, account: ObjectKey) -> None:
        """Forget an account whose subscription is gone."""
        self._held.pop(account, None)
