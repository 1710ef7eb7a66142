"""What every object has: its metadata, its place in the API, and the annotations of people and the operator."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, PlainSerializer, ValidationError
from pydantic.alias_generators import to_camel

from relay_wire.base import RESOURCE_ID

GROUP = "gpurelay.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "gpurelay"

FINALIZER = f"{GROUP}/cloud-resource"
LEADER_LABEL = f"{GROUP}/leader"
COST_CENTER = f"{GROUP}/cost-center"
"""The label that says who pays for an object."""

ANNOTATION_PREFIX = f"{GROUP}/"
CREATE_INTENT = f"{ANNOTATION_PREFIX}create-intent"  # only the operator writes it
API_KEY_SECRET = f"{ANNOTATION_PREFIX}api-key-secret"  # of accounts; only the operator writes it
PAUSED = f"{ANNOTATION_PREFIX}paused"
PLAN_ONLY = f"{ANNOTATION_PREFIX}plan-only"
RESTARTED_AT = f"{ANNOTATION_PREFIX}restarted-at"
RECONCILE_AT = f"{ANNOTATION_PREFIX}reconcile-at"
ADOPT_ID = f"{ANNOTATION_PREFIX}adopt-id"
RETRY_CREATE = f"{ANNOTATION_PREFIX}retry-create"
ABANDON = f"{ANNOTATION_PREFIX}abandon"

ECHO_CHARS = 64
"""The most characters of an annotation that status repeats."""
_INTENT_CHARS = 4096
"""The operator writes shorter intents only."""
INTENT_TOKEN: Final = r"^[A-Za-z0-9_-]{1,64}$"  # noqa: S105 - a pattern
"""What the cloud gives back unchanged, also within a longer text; the operator writes hexadecimal digits only."""
MOST_ATTEMPTS: Final = 99_999
"""After it the operator counts from 1 again; names carry the number, and are recognized up to 999,999."""
MOST_IN_A_ROW: Final = 2**31 - 1
"""More failures than there can be; a larger number in status is somebody's edit, and one more must fit."""


@lru_cache(maxsize=256)  # a status tells few moments, each several times
def rfc3339(moment: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"


def _has_utc(moment: datetime) -> datetime:
    if 1 < moment.year < 9999:  # in any time zone
        return moment
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("in UTC it is not within the years 1 to 9999") from None
    return moment


Time = Annotated[AwareDatetime, AfterValidator(_has_utc), PlainSerializer(rfc3339, return_type=str, when_used="json")]
"""A moment; in JSON it is RFC 3339, UTC, whole seconds."""


class Model(BaseModel):
    """A part of an object: snake_case here, camelCase in JSON.

    Unknown fields are ignored, so that an older operator survives a newer CRD; the API server refuses them at apply.
    Bounds become the CRD's bounds; defaults stay here (a default in the schema would show as drift in GitOps).
    Dump with `mode="json", exclude_none=True`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        serialize_by_alias=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,  # a spec may hold secrets in plain environment variables
    )


SpecT = TypeVar("SpecT", bound=Model)
StatusT = TypeVar("StatusT", bound=Model)


class ObjectKey(NamedTuple):
    """Identifies an object; a cluster-scoped one has an empty namespace. Hashed some ninety times per created pod."""

    kind: str
    namespace: str
    name: str
    vanished: str = ""
    """The UID of a vanished object, or of a live one with a surplus resource, then with a suffix; else empty."""

    def __str__(self) -> str:
        path = "/".join(part for part in (self.kind, self.namespace, self.name) if part)
        return f"{path} (vanished)" if self.vanished else path


def paused(annotations: Mapping[str, str]) -> bool:
    """Whether these annotations hold back every change."""
    return annotations.get(PAUSED) == "true"


class ObjectMeta(Model):
    """The part of Kubernetes' metadata that the operator reads."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    finalizers: list[str] = Field(default_factory=list)
    annotations: dict[str, str] = Field(default_factory=dict, repr=False)
    labels: dict[str, str] = Field(default_factory=dict)

    def echo(self, annotation: str) -> str | None:
        """The annotation in the form that status repeats after acting on it; compare it in this form.

        None if it is absent or empty; a digest if it is too long for status, so that every change still shows.
        """
        value = self.annotations.get(annotation)
        if not value or len(value) <= ECHO_CHARS:
            return value or None
        return f"sha256:{hashlib.sha256(value.encode(errors='replace')).hexdigest()}"[:ECHO_CHARS]

    @property
    def paused(self) -> bool:
        """Whether people hold back every change."""
        return paused(self.annotations)

    @property
    def plan_only(self) -> bool:
        """Whether people want only a plan of what the operator would do."""
        return self.annotations.get(PLAN_ONLY) == "true"

    @property
    def held(self) -> bool:
        """Whether either annotation holds back everything, for a kind that makes no plans."""
        return self.paused or self.plan_only


_EMPTY: Final[Callable[[], Any]] = dict
"""Validation turns this into a status of the declared type."""


class Resource(Model, Generic[SpecT, StatusT]):
    """One object of a kind; concrete kinds fix `kind`. Its status is empty until the operator has seen it."""

    api_version: str = API_VERSION
    kind: str
    metadata: ObjectMeta
    spec: SpecT
    status: StatusT = Field(default_factory=_EMPTY, validate_default=True)

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.kind, self.metadata.namespace, self.metadata.name)


class Identity(Model):
    """The object that something in the cloud belongs to."""

    installation: str = Field("", max_length=32, description="Which cluster's operator made it.")
    namespace: str = Field(max_length=63, description="The object's namespace.")
    name: str = Field(max_length=253, description="Its name.")
    uid: str = Field(max_length=64, description="Its UID.")
    organization: str = Field("", max_length=253, description="The organization in the cloud that it belongs to.")
    endpoint: str = Field(
        "", max_length=16, description="Which cloud that is: a hash of the URL of the API that it was created with."
    )


class MalformedIntent(ValueError):
    """The text of the create-intent annotation is not an intent, since somebody edited it."""

    TOKEN = "-"  # noqa: S105 - in `status.createToken`, says that a person resolved such an intent


class Reservation(Model):
    """The budget reserved with an account before anything that costs as much is sent."""

    token: str = Field(min_length=1, max_length=64)
    cents: int = Field(ge=0)  # per hour, for all replicas
    gpus: int = Field(ge=0)


class CreateIntent(Model):
    """A decision recorded in the create-intent annotation before anything is sent.

    `status.createToken` closes it. While it is open, the cloud may have acted on it, even if every other trace is lost.
    """

    token: str = Field(pattern=INTENT_TOKEN)
    name: str = Field(min_length=1, max_length=63)  # the name sent to the cloud
    attempt: int = Field(ge=1, le=MOST_ATTEMPTS)
    spec_hash: str = Field(max_length=1024)
    started_at: Time
    account: str = Field(
        default="", pattern=r"^((Cluster)?CloudAccount/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$"
    )  # kind/name of the account whose key sends it, as an AccountRef has them
    identity: Identity | None = None  # absent in intents of the first release
    part_of: str = Field(
        default="", max_length=253, pattern=rf"^({RESOURCE_ID.pattern}(/{RESOURCE_ID.pattern})*)?$"
    )  # the cloud id of the whole, if the resource is part of one; that of a model may have slashes
    reserved: Reservation | None = None  # by the create, or by a later start or scale-up
    env_digest: str | None = Field(default=None, max_length=64)  # as in status; absent in older intents
    answered: str = Field(
        default="", pattern=rf"^({RESOURCE_ID.pattern})?$"
    )  # the id in an answer about something else: what was made may be that

    @property
    def account_parts(self) -> tuple[str, str]:
        """Kind and name of the account; both empty if the intent names none."""
        kind, _, name = self.account.partition("/")
        return kind, name

    @staticmethod
    def parse(text: str | None) -> "CreateIntent | MalformedIntent | None":
        """Parse the annotation: None if it is empty, the error as a value if it is malformed.

        A malformed intent counts as open: the resource that it stood for may exist.
        """
        if text and len(text) > _INTENT_CHARS:
            return MalformedIntent(f"the annotation {CREATE_INTENT} cannot be read: it is too long")
        return _parsed(text) if text else None

    def to_annotation(self) -> str:
        return self.model_dump_json(exclude_defaults=True)


@lru_cache(maxsize=1024)  # every text is parsed several times in one pass over its object
def _parsed(text: str) -> CreateIntent | MalformedIntent:
    try:
        return CreateIntent.model_validate_json(text)
    except ValidationError as invalid:
        problem = invalid.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        return MalformedIntent(f"the annotation {CREATE_INTENT} cannot be read: {where or 'text'}: {problem['msg']}")
