"""The lines of KINDS, and what is read from them."""

from relay_operator.api.cloudaccount_status import InUse
from relay_operator.crds import DEFINITIONS
from relay_operator.engine.kind import resource_type
from relay_operator.kinds import KINDS


def test_each_kind_has_one_line_and_one_place_in_the_api() -> None:
    assert len({kind.name for kind in KINDS}) == len({resource_type(kind.definition) for kind in KINDS}) == len(KINDS)
    assert tuple(kind.definition for kind in KINDS) == tuple(one for one in DEFINITIONS if not one.read_only)


def test_a_shared_account_serves_workloads_and_batches_unless_it_says_more() -> None:
    """What lets people in to what others have is not among them, and no kind is that forgot to say."""
    served = {kind.name for kind in KINDS if kind.shared_by_default}
    assert served == {"GpuPod", "GpuVm", "GpuCluster", "InferenceBatch"}
    assert served <= {kind.name for kind in KINDS if kind.uses_account}


def test_accounts_show_how_many_objects_of_each_kind_use_them() -> None:
    plurals = {kind.definition.plural for kind in KINDS if kind.uses_account}
    assert plurals == {name.replace("_", "") for name in InUse.model_fields}
