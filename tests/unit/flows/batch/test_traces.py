"""Whose create a batch in the cloud may be."""

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import entry_of
from relay_operator.flows.batch.traces import BatchTraces
from tests.unit.engine.apiserver import Json
from tests.unit.flows.batch.examples import TOKEN

KEY = ObjectKey("InferenceBatch", "ns", "nightly")


def test_a_batch_of_an_object_that_cannot_be_read_is_left_to_it() -> None:
    raw: Json = {
        "metadata": {"name": "nightly", "namespace": "ns", "uid": "u1", "resourceVersion": "1"},
        "spec": {"model": 7},
        "status": {"createToken": TOKEN},
    }
    cache = Cache()
    cache.put(KEY, raw)
    traces, name = BatchTraces(cache), f"{TOKEN}/1/1/1/1"
    assert (traces.ours(name), traces.giver(name)) == (True, KEY)
    assert traces.is_searched(name, entry_of(raw, ""))
