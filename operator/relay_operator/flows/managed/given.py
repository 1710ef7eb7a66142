"""What the spec of an object refers to: other objects, Secrets and ConfigMaps, and the models that it may run."""

from dataclasses import dataclass, replace
from typing import Generic

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.cache import Cache
from relay_operator.flows.managed import links, predicates
from relay_operator.flows.managed.abilities import checks_inputs, is_part, refers, takes_inputs
from relay_operator.flows.managed.funding import Funding
from relay_operator.flows.managed.inputs import InputReader, MissingInput, ReadInputs
from relay_operator.flows.managed.links import Links
from relay_operator.flows.managed.part_of import part_of
from relay_operator.flows.managed.registered_keys import registered_keys
from relay_operator.flows.managed.resource import ExternalResource, InputRefs, Inputs, ObsT
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import Demand


@dataclass(frozen=True, slots=True)
class Given:
    """What the spec refers to, as far as it was read."""

    read: ReadInputs | MissingInput | None
    linked: Links
    inputs: Inputs
    models: tuple[str, ...]
    full: int
    digest: str

    def unusable(self, resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT]) -> str | None:
        """Why nothing can be created with it; None if nothing prevents that."""
        if isinstance(self.read, MissingInput):
            return self.read.message
        return resource.unusable(obj, self.inputs) if checks_inputs(resource) else None


@dataclass(frozen=True, slots=True)
class GivenLooker(Generic[SpecT, StatusT, ObsT]):
    """Looks at what the specs of one kind's objects refer to."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    cache: Cache
    inputs: InputReader
    funding: Funding[SpecT, StatusT, ObsT]

    async def look(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT], *, wanted: bool) -> Given:
        """Secrets and ConfigMaps are read if a create needs them, or if they may have changed."""
        obj, memory = subject.obj, subject.memory
        lives = predicates.demand(obj) is Demand.EXIST  # else the spec may be illegible
        refs = self.resource.input_refs(obj) if lives and takes_inputs(self.resource) else InputRefs()
        linked = self.links(subject)
        keys = registered_keys(self.cache, refs.registered, linked.ids)
        read: ReadInputs | MissingInput | None = None
        if lives and (wanted or (refs.any and sight.observed is not None)):
            read = await self.inputs.read(obj.metadata.namespace, refs, obj.metadata.uid, memory, keys)
        models = await self.funding.models(subject) if lives else ()
        full = memory.full[1] if memory.full[0] == obj.metadata.generation else 0
        inputs = Inputs(ids=linked.ids, model_id=predicates.model_id(models, full))
        if not isinstance(read, ReadInputs):
            return Given(read, linked, inputs, models, full, digest="")
        inputs = replace(inputs, env=read.env, ssh_keys=read.ssh_keys, texts=read.texts)
        # If keys are missing, it is unknown whether they have changed.
        digest = read.digest if len(keys) == len(refs.registered) else ""
        return Given(read, linked, inputs, models, full, digest)

    def links(self, subject: Subject[SpecT, StatusT], *, anew: bool = False) -> Links:
        """What the spec refers to; what the resource was given counts for that one, and not for one made `anew`."""
        obj = subject.obj
        if anew:
            obj = obj.model_copy(update={"status": obj.status.model_copy(update={"id": None, "references": None})})
        lives = predicates.demand(obj) is Demand.EXIST
        wanted = self.resource.references(obj) if lives and refers(self.resource) else ()
        if not wanted:
            return Links()
        given = frozenset((each.kind, each.name) for each in obj.status.references or ())
        found = links.links(self.cache, subject.key, wanted, given)
        if is_part(self.resource) and not anew and found.ids and part_of(obj.status) not in found.ids.values():
            return replace(found, unmet=Reason.REFERENCE_NOT_READY, message="what it is made of has changed just now")
        return found
