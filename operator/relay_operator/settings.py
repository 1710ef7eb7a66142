"""Every setting of the operator: read once from the environment, prefix RELAY_."""

import os
import re
from collections.abc import Collection
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Annotated, Literal, NamedTuple, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from relay_client.redaction import redact
from relay_operator.objectstores.addresses import Network, StorePolicy, file_root, private_network
from relay_operator.objectstores.allowed_urls import UrlPrefix
from relay_wire.files import BATCH_UPLOAD_LIMIT

PREFIX = "RELAY_"
_SPARE_CONNECTIONS = 64
_ALIKE = 0.8
"""How much of a name must be that of a setting, for it to be meant; those of Services stay below it."""
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_LISTEN = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:\[\]]+):(?P<port>[0-9]{1,5})")

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class SettingsError(Exception):
    """A setting has an unusable value; the message names the variable and what it accepts."""


class ListenAddress(NamedTuple):
    """Where a server listens; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `host:port`, IPv6 hosts in brackets; raises ValueError."""
        match = _LISTEN.fullmatch(text)
        if match is None or int(match["port"]) > 65535:
            raise ValueError("must be host:port, as in 0.0.0.0:8088")
        return cls(match["host"].strip("[]"), int(match["port"]))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _split(value: object) -> object:
    return tuple(value.replace(",", " ").split()) if isinstance(value, str) else value


def _listen(value: object) -> object:
    return ListenAddress.parse(value) if isinstance(value, str) else value


def _namespace(name: str) -> str:
    if not _DNS_LABEL.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a namespace")
    return name


def _plain(url: str) -> str:
    if url:
        UrlPrefix.parse(url)
    return url


def _without_slash(url: str) -> str:
    return url.rstrip("/")


ItemT = TypeVar("ItemT")
Words = Annotated[tuple[ItemT, ...], NoDecode, BeforeValidator(_split)]
Listen = Annotated[ListenAddress, NoDecode, BeforeValidator(_listen)]
Namespace = Annotated[str, AfterValidator(_namespace)]
Prefix = Annotated[str, AfterValidator(_plain)]
Url = Annotated[Prefix, AfterValidator(_without_slash)]


class Settings(BaseSettings):
    """The operator's settings; the descriptions are what `relay-operator settings` prints."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    watch_namespaces: Words[Namespace] = Field((), description="Namespaces whose objects are reconciled; empty: all.")
    account_secret_names: Words[str] = Field(
        ("relay-api-key",),
        description="With watched namespaces: the names of accounts' Secrets that the operator may read and release "
        "wherever they are, so that it can finish when a namespace is deleted and its rights there have gone first. "
        "A Secret of another name is not kept until nothing depends on it.",
    )
    namespace: Namespace = Field(
        "default",
        description="The operator's own namespace: its Lease, its Pod and the Secrets of ClusterCloudAccounts.",
    )
    installation: str = Field(
        "",
        max_length=10,
        pattern="^[a-z0-9]*$",
        description="Part of names in the cloud that distinguishes this cluster's operator from others, at most "
        "10 lower-case letters and digits; empty: from the cluster. Set it for a cluster rebuilt from a backup, to "
        "what the former one had.",
    )
    allowed_base_urls: Words[Prefix] = Field(
        (),
        description="URL prefixes an account may name, matched on whole scheme, host, port and path segments. "
        "The default URLs are always allowed; empty: only those.",
    )
    default_base_url: Url = Field("", description="Management API of accounts that name no baseUrl.")
    default_inference_url: Url = Field("", description="Inference API of accounts that name no inferenceUrl.")

    assumed_kinds: Words[str] = Field(
        (),
        description="Kinds to switch on although the cloud's description does not show the calls that they need, such "
        "as VmSnapshot. Objects of other such kinds are Stalled (KindDisabled); when one is deleted, what it has in "
        "the cloud is still ended.",
    )
    catalog_account: str = Field(
        "",
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$",
        description="The CloudAccount (namespace/name) with whose key the catalog of GpuModels is read; empty: the "
        "ClusterCloudAccount default, else the oldest account that is Ready.",
    )

    file_roots: Words[Annotated[PurePosixPath, BeforeValidator(file_root)]] = Field(
        (), description="Folders below which batches may read and write with file: URLs; empty: no file: URLs."
    )
    allowed_private_networks: Words[Annotated[Network, BeforeValidator(private_network)]] = Field(
        (),
        description="Networks (CIDR) that are not public and that batches may read from and write to, also over plain "
        "http; empty: only public addresses over TLS.",
    )

    webhook_listen: Listen = Field(
        ListenAddress("0.0.0.0", 8088),  # noqa: S104 - a container must be reachable from outside
        description="Address of the webhook receiver. The unspecified address of IPv6 includes IPv4.",
    )
    webhook_public_url: Url = Field(
        "",
        description="Where the cloud reaches the webhook receiver; empty: no subscriptions, only polling.",
    )
    webhook_body_limit_bytes: int = Field(65_536, ge=1, description="The operator refuses a larger delivery unread.")
    webhook_deduplication_size: int = Field(4096, ge=1, description="Delivery ids remembered for each account.")
    webhook_secret_overlap_seconds: Seconds = Field(
        900, description="How long a webhook's former secret is still accepted after it was replaced."
    )

    metrics_listen: Listen = Field(
        ListenAddress("0.0.0.0", 9090),  # noqa: S104
        description="Address of /metrics, /healthz and /readyz. The unspecified address of IPv6 includes IPv4.",
    )
    leader_election: bool = Field(True, description="Whether replicas agree on one leader through a Lease.")
    lease_name: str = Field(
        "relay-operator",
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        description="Name of the Lease, in the operator's namespace.",
    )
    lease_duration_seconds: Seconds = Field(15, ge=1, description="A standby takes over when the Lease is this old.")
    lease_renew_deadline_seconds: Seconds = Field(10, description="A leader that could not renew for this long ends.")
    lease_retry_seconds: Seconds = Field(2, description="Time between two attempts to take or renew the Lease.")

    workers: int = Field(
        96,
        ge=1,
        le=1024,
        description="Objects reconciled at once: at most half of them with the accounts of one namespace, or with one "
        "shared account, and three eighths with one account in one namespace. At most eight, or a "
        "twelfth if that is more, are batches.",
    )
    poll_transition_seconds: Seconds = Field(5, description="Interval of looking at an object that is changing.")
    poll_settled_seconds: Seconds = Field(300, description="Interval of looking at an object that is as asked.")
    poll_jitter: float = Field(0.2, ge=0, le=1, description="Share by which an interval is varied at random.")
    resync_seconds: Seconds = Field(600, description="Interval of the full list that repairs the cache.")
    secret_reread_seconds: Seconds = Field(60, description="Interval of reading an account's Secret again.")
    backoff_initial_seconds: Seconds = Field(1, description="First wait after a failed attempt on an object.")
    backoff_max_seconds: Seconds = Field(300, description="Longest wait after failed attempts on an object.")
    unavailable_after_failures: int = Field(
        3, ge=1, description="Failures in a row after which an unreachable cloud makes an object Stalled."
    )
    absence_seconds: Seconds = Field(5, description="Time between two 404s that together mean that it is gone.")
    newborn_seconds: Seconds = Field(30, description="After a create, a 404 means nothing for this long.")
    search_seconds: Seconds = Field(
        60, description="After a create whose answer was lost, how long a webhook may still name what it made."
    )
    absence_after_unknown_seconds: Seconds = Field(
        600,
        description="If a create whose answer was lost leaves no trace for this long, the operator concludes that the "
        "cloud did not act on it, and makes another attempt. If the cloud acts on it later, you pay for both until the "
        "operator ends the late one.",
    )
    batch_transfers: int = Field(
        4,
        ge=1,
        le=64,
        description="Batches whose records are read, uploaded or published at the same time: half of them at "
        "most for one namespace, and never all for one account, if there are three or more.",
    )
    batch_part_bytes: int = Field(
        BATCH_UPLOAD_LIMIT,
        ge=1024,
        le=BATCH_UPLOAD_LIMIT,
        description="Bytes of one file uploaded for a batch; a larger input is split into several batches.",
    )
    batch_progress_seconds: Seconds = Field(
        5, description="The shortest time between two status writes for a batch's progress alone."
    )
    shutdown_seconds: Seconds = Field(20, description="Time that work under way gets to finish after SIGTERM.")

    log_format: Literal["json", "console"] = Field("json", description="One JSON object per line, or text for people.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level that is logged."
    )

    @model_validator(mode="after")
    def _lease_times_fit(self) -> Self:
        if not self.lease_retry_seconds < self.lease_renew_deadline_seconds < self.lease_duration_seconds:
            raise ValueError(
                "RELAY_LEASE_RETRY_SECONDS must be below RELAY_LEASE_RENEW_DEADLINE_SECONDS, and that below "
                "RELAY_LEASE_DURATION_SECONDS: otherwise two replicas could lead at once"
            )
        if self.backoff_initial_seconds > self.backoff_max_seconds:
            raise ValueError("RELAY_BACKOFF_INITIAL_SECONDS must not be above RELAY_BACKOFF_MAX_SECONDS")
        return self

    def allowed_prefixes(self) -> tuple[UrlPrefix, ...]:
        """The allowed prefixes of an account's URLs: the allow-list and the operator's own default URLs."""
        urls = (*self.allowed_base_urls, self.default_base_url, self.default_inference_url)
        return tuple(UrlPrefix.parse(url) for url in urls if url)

    def may_hold_secret(self, name: str) -> bool:
        """Whether an account's Secret may get a finalizer: only if it can be removed at the namespace's end."""
        return not self.watch_namespaces or name in self.account_secret_names

    @property
    def connections(self) -> int:
        """The most connections to the API server, and to all clouds: some are used by others than workers."""
        return self.workers + _SPARE_CONNECTIONS

    def store_policy(self) -> StorePolicy:
        """What batches may reach besides public addresses."""
        return StorePolicy(self.file_roots, self.allowed_private_networks)


def load_settings(assumable: Collection[str] | None = None) -> Settings:
    """Read the environment; raises `SettingsError` with one sentence about the first bad value.

    `assumable` are the kinds that `assumed_kinds` may name; None: any.
    """
    try:
        chosen = Settings()
    except ValidationError as invalid:
        raise SettingsError(_sentence(invalid)) from None
    if unknown := [kind for kind in chosen.assumed_kinds if assumable is not None and kind not in assumable]:
        takes = ", ".join(sorted(assumable or ())) or "no kind"
        raise SettingsError(f"{PREFIX}ASSUMED_KINDS={unknown[0]!r} cannot be used: it takes {takes}.")
    return chosen


def _sentence(invalid: ValidationError) -> str:
    problem = invalid.errors(include_url=False)[0]
    reason = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:
        return f"The settings do not fit together: {reason}."
    variable = f"{PREFIX}{problem['loc'][0]}".upper()
    told = f"{variable}={str(problem['input'])[:200]!r} cannot be used: {reason}. See `relay-operator settings`."
    return redact(told)  # a URL may hold a password


def misspelt_settings() -> list[str]:
    """A sentence about each variable that is not a setting but reads like one.

    Others are left alone: a Service named `relay` or `relay-operator` gives every Pod of its namespace such variables.
    """
    names = [name for name, _, _ in documented()]
    given = sorted(name for name in os.environ if name.startswith(PREFIX) and name not in names)
    meant = {name: get_close_matches(name, names, n=1, cutoff=_ALIKE) for name in given}
    return [f"{name} is not a setting and has no effect: is {near[0]} meant?" for name, near in meant.items() if near]


def describe_settings() -> str:
    """Every variable with its default and meaning, for `relay-operator settings`."""
    return "\n".join(f"{name} (default: {default})\n    {meaning}\n" for name, default, meaning in documented())


def documented() -> list[tuple[str, str, str]]:
    """Each variable with its default and its meaning."""
    fields = Settings.model_fields.items()
    return [(f"{PREFIX}{name.upper()}", _shown(field.default), field.description or "") for name, field in fields]


def _shown(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple) and not isinstance(default, ListenAddress):
        return ",".join(default) or "empty"
    return str(default) or "empty"
