"""The signing secrets of deliveries, in memory, since the receiver reads them before anything is proven."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey


@dataclass(slots=True)
class _Held:
    current: str = field(repr=False)
    former: str = field(default="", repr=False)
    former_until: float = 0.0
    seen: OrderedDict[bytes, None] = field(default_factory=OrderedDict, repr=False)
    """Deliveries, as the receiver remembers them."""


@dataclass(slots=True)
class SigningSecrets:
    """One secret per account; also the former one, for `overlap` seconds after a roll, and what deliveries came."""

    overlap: float
    clock: Callable[[], float]
    _held: dict[ObjectKey, _Held] = field(default_factory=dict, repr=False)

    def put(self, account: ObjectKey, secret: str) -> None:
        """Set the secret that the cloud signs with from now on."""
        held = self._held.get(account)
        if held is None:
            self._held[account] = _Held(secret)
        elif held.current != secret:
            held.current, held.former, held.former_until = secret, held.current, self.clock() + self.overlap

    def of(self, account: ObjectKey) -> tuple[str, ...] | None:
        """The accepted secrets, the current one first; None without a subscription."""
        held = self._held.get(account)
        if held is None:
            return None
        return (held.current, held.former) if held.former and self.clock() < held.former_until else (held.current,)

    def seen(self, account: ObjectKey) -> OrderedDict[bytes, None]:
        """What the receiver remembers of deliveries to an account that has a secret; goes with the secret."""
        return self._held[account].seen

    def drop(self, account: ObjectKey) -> None:
        """Forget an account whose subscription is gone."""
        self._held.pop(account, None)
