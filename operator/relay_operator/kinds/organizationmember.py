"""OrganizationMember: a person of the organization and their role (section 2)."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, Conflict, Outcome, items_of, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.parts import DeletionPolicy
from relay_operator.api.schema import PRINTABLE, field_rules, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, ManagedStatus
from relay_operator.engine.report import LAST_OWNER
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Change, Inputs
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.records import Records
from relay_wire.orgs import Email, Member, MemberAdd, MemberUpdate

_SAME_EMAIL = (
    "self.email.lowerAscii() == oldSelf.email.lowerAscii()",
    "email cannot be changed, since it says who this is: delete this object and create another",
)
_MAKE_ANOTHER = "this is the organization's last owner, and is left as it is: make somebody else an owner first"


class Role(StrEnum):
    """What a member may do, by the cloud's names."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"
    VIEWER = "viewer"


class OrganizationMemberSpec(ManagedSpec):
    """Who is a member of the organization, and in which role."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, _SAME_EMAIL)

    email: Email = Field(
        json_schema_extra=field_rules(PRINTABLE),
        description="The e-mail that the person signed up with; upper and lower case are the same. Cannot be changed "
        "later.",
    )
    role: Role = Field(
        description="What the person may do: owner, admin, member or viewer. It is changed in place; an owner is added "
        "as admin and then made owner."
    )
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.ORPHAN,
        description="What happens in the cloud when this object is deleted. Orphan: the person stays a "
        "member. Delete: the person is removed from the organization.",
    )


class OrganizationMemberStatus(ManagedStatus):
    """What the cloud says about one member."""

    email: str | None = Field(None, max_length=254, description="The e-mail, as the cloud has it.")
    role: str | None = Field(None, max_length=64, description="What the person may do, in the cloud's word.")


class OrganizationMember(Resource[OrganizationMemberSpec, OrganizationMemberStatus]):
    """One member."""

    kind: Literal["OrganizationMember"] = "OrganizationMember"


DEFINITION = definition_of(
    OrganizationMember,
    "omember",
    summary="A person who belongs to the organization, and in which role.",
    columns=(Column("Email", ".spec.email"), Column("Role", ".status.role"), *RECORD_COLUMNS),
)

Person: TypeAlias = Resource[OrganizationMemberSpec, OrganizationMemberStatus]


class OrganizationMembers(Records[OrganizationMemberSpec, OrganizationMemberStatus, Member]):
    """How an OrganizationMember maps to a member of the organization, who is identified by e-mail address alone."""

    definition = DEFINITION
    model = OrganizationMember
    told_apart_by = ("email",)
    list_operation = operations.LIST_MEMBERS

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._cache = parts.engine.cache

    async def existing(self, cloud: Cloud, obj: Person) -> Member | None:
        listed = await self._lists.fresh(cloud, lambda: self._listed(cloud))
        email = obj.spec.email.lower()
        return next((member for member in listed.values() if (member.email or "").lower() == email), None)

    async def may_exist(self, cloud: Cloud, obj: Person) -> bool:
        """Whether one that no other object has has no e-mail in the list."""
        listed = await self._lists.fresh(cloud, lambda: self._listed(cloud))
        return any(not member.email and not self._cache.others(obj.key, member.id) for member in listed.values())

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Empty: nothing shows which members an operator added."""
        return {}

    async def create(self, cloud: Cloud, obj: Person, intent: CreateIntent, inputs: Inputs) -> Member:
        given = Role.ADMIN if obj.spec.role is Role.OWNER else obj.spec.role
        added = MemberAdd.model_validate({"email": obj.spec.email, "role": given.value})
        return await cloud.call(operations.ADD_MEMBER, added)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        remove = operations.REMOVE_MEMBER
        await _unless_last_owner(cloud, remove.name, cloud_id, lambda: cloud.call(remove, userId=cloud_id))

    def immutable(self, obj: Person) -> Mapping[str, JsonValue]:
        return {"email": obj.spec.email.lower()}

    def differences(self, obj: Person, observed: Member) -> tuple[str, ...]:
        has = None if observed.email is None else observed.email.lower()
        return differing(("email", obj.spec.email.lower(), has))

    def changes(self, obj: Person, observed: Member, *, running: bool) -> tuple[Change, ...]:
        asked = obj.spec.role
        if asked == observed.role:
            return ()
        body, update = MemberUpdate(role=asked.value), operations.UPDATE_MEMBER

        async def send(cloud: Cloud) -> None:
            await _unless_last_owner(
                cloud, update.name, observed.id, lambda: cloud.call(update, body, userId=observed.id)
            )

        return (Change("role", Reason.UPDATING, send, to=asked.value),)

    def detail(self, observed: Member) -> str:
        return f"the cloud has it as {observed.id}, with the role {observed.role}"

    def told(self, obj: Person, observed: Member) -> Mapping[str, object]:
        return {"email": observed.email or obj.status.email, "role": observed.role}


async def _unless_last_owner(cloud: Cloud, name: str, user_id: str, send: Callable[[], Awaitable[object]]) -> None:
    """Raises Conflict with code LAST_OWNER, without sending if the list shows it, else if the cloud refuses."""
    members = await items_of(cloud, operations.LIST_MEMBERS)
    owners = {member.id for member in members if member.role == Role.OWNER}
    if owners == {user_id}:
        raise Conflict(name, _MAKE_ANOTHER, code=LAST_OWNER, outcome=Outcome.NOT_SENT)
    try:
        await send()
    except Conflict as refused:
        if user_id not in owners:
            raise
        raise Conflict(name, refused.message, status=refused.status, code=LAST_OWNER) from refused
