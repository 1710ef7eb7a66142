"""`kubectl relay deposit`: charges the organization's default card, once."""

import secrets
import shlex
from typing import Annotated, Final

import typer

from relay_cli import accounts
from relay_cli.accounts import BaseUrl
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl
from relay_cli.tables import dollars
from relay_cli.terminal import agreed, complain, say
from relay_client import CloudError, Outcome
from relay_client.operations import CREATE_DEPOSIT, GET_BALANCE, WHOAMI
from relay_wire.account import Whoami
from relay_wire.billing import MOST_KEY_CHARACTERS, Balance, ChargeOutcome, DepositRequest

LEAST_CENTS: Final = 1000
MOST_CENTS: Final = 50_000

AccountName = Annotated[str, typer.Argument(metavar="ACCOUNT", help="A CloudAccount, or ccacct/NAME.")]
Cents = Annotated[int, typer.Argument(metavar="CENTS", min=LEAST_CENTS, max=MOST_CENTS, help="The amount to charge.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Charge without asking.")]
Key = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="KEY", help="The key of an earlier deposit that got no answer."),
]


async def deposit(
    kubectl: Kubectl,
    account: AccountName,
    cents: Cents,
    yes: Yes = False,
    idempotency_key: Key = None,
    base_url: BaseUrl = "",
) -> None:
    """Charge the default card of an account's organization, after asking; one idempotency key is charged once."""
    repeated = idempotency_key is not None
    key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
    if (unfit := fault_of(key)) is not None:
        # With another key, the card would be charged a second time.
        raise Failure(f"--idempotency-key {unfit}: give the key of the earlier deposit", Status.MISUSED)
    options = [*kubectl.options(), *([f"--base-url={base_url}"] if base_url else [])]
    command = shlex.join(["kubectl", "relay", "deposit", account, str(cents), "--idempotency-key", key, *options])
    async with accounts.cloud_of(kubectl, await accounts.called(kubectl, account), base_url) as cloud:
        if not yes and not agreed(question(cents, await cloud.call(WHOAMI), await cloud.call(GET_BALANCE, large=True))):
            raise Failure(f"declined: nothing was charged{' by this attempt' if repeated else ''}")
        # From here on the key is on the screen, however this process ends.
        complain(f"charging with the idempotency key {key}")
        try:
            charge = await cloud.call(CREATE_DEPOSIT, DepositRequest(amount_cents=cents, idempotency_key=key))
        except CloudError as error:
            raise unanswered(error, command, repeated=repeated) from None
    say(f"{told(charge, cents)}\n")


def fault_of(key: str) -> str | None:
    """Why no deposit had this idempotency key; None if one may have had it. Pure."""
    if not key.strip():
        return "is empty"
    if len(key) > MOST_KEY_CHARACTERS:
        return f"has more than {MOST_KEY_CHARACTERS} characters"
    # Python keeps bytes of an argument that are not text as lone surrogates, which no JSON can carry.
    return "is not UTF-8" if any("\ud800" <= one <= "\udfff" for one in key) else None


def question(cents: int, who: Whoami, balance: Balance) -> str:
    """The question before the charge. Pure."""
    name = f"{who.organization_name} ({who.organization_id})" if who.organization_name else who.organization_id
    return f"Charge {dollars(cents)} to the default card of {name}, which has {dollars(balance.available_cents)}?"


def unanswered(error: CloudError, command: str, *, repeated: bool) -> Failure:
    """The failure to report: whether the card may have been charged, and what to do. Pure.

    `command` is the same deposit with its key; `repeated`: the key is that of an earlier attempt.
    """
    find_out = f"to find out without charging twice, run {command}"
    if error.outcome is Outcome.UNKNOWN:
        return Failure(f"the card may have been charged ({error}): {find_out}")
    if repeated:
        return Failure(f"this attempt charged nothing ({error}), but the earlier one may have: {find_out}")
    return Failure(f"nothing was charged: {error}")


def told(charge: ChargeOutcome, cents: int) -> str:
    """The outcome of a charge of `cents`. Raises Failure if it failed, or if a person must confirm it first. Pure."""
    amount = dollars(cents if charge.amount_cents is None else charge.amount_cents)
    amount += f" ({charge.charge_id})" if charge.charge_id else ""
    match charge.status:
        case "succeeded":
            return f"{amount} was charged; the balance will show it within moments."
        case "processing":
            return f"{amount} is being charged; the balance will show it once the payment is confirmed."
        case "failed":
            raise Failure(f"the card was declined and {amount} was not charged: set another in the cloud's console")
        case "requires_action":
            raise Failure(f"the bank wants you to confirm {amount}: do so in the cloud's console")
        case other:
            return f"{amount} has the status {other} in the cloud."
