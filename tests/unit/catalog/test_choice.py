"""Which account the catalog is read with."""

from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from relay_operator.catalog.choice import chosen
from relay_operator.engine.cache import Cache
from relay_operator.settings import Settings


def cache(*accounts: tuple[str, str, str, bool]) -> Cache:
    """Accounts by kind, name and creation; the last says whether it is Ready."""
    known = Cache()
    for number, (kind, name, created, ready) in enumerate(accounts, 1):
        condition: JsonValue = {"type": "Ready", "status": "True" if ready else "False"}
        key = ObjectKey(kind, "" if kind == "ClusterCloudAccount" else "team", name)
        metadata: dict[str, JsonValue] = {
            "name": name,
            "uid": f"u{number}",
            "generation": 1,
            "creationTimestamp": created,
        }
        metadata["resourceVersion"] = str(number)
        status: JsonValue = {"observedGeneration": 1, "conditions": [condition]}
        spec: JsonValue = {"apiKeySecretRef": {"namespace": "relay", "name": "key", "key": "api-key"}}
        known.put(key, {"metadata": metadata, "spec": spec, "status": status})
    return known


OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
SHARED = ("ClusterCloudAccount", "default", NEW, False)


def test_the_setting_names_it_whether_it_exists_or_not() -> None:
    assert chosen(Settings(catalog_account="lab/gpus"), cache(SHARED)) == ObjectKey("CloudAccount", "lab", "gpus")


def test_the_shared_default_is_next_whether_it_is_ready_or_not() -> None:
    known = cache(("CloudAccount", "default", OLD, True), SHARED)
    assert chosen(Settings(), known) == ObjectKey("ClusterCloudAccount", "", "default")


def test_else_it_is_the_oldest_that_is_ready_of_either_kind() -> None:
    known = cache(
        ("CloudAccount", "broken", OLD, False),
        ("CloudAccount", "newer", NEW, True),
        ("ClusterCloudAccount", "shared", "2026-01-02T00:00:00Z", True),
    )
    assert chosen(Settings(), known) == ObjectKey("ClusterCloudAccount", "", "shared")


def test_without_any_that_is_ready_there_is_none() -> None:
    assert chosen(Settings(), cache()) is None
    assert chosen(Settings(), cache(("CloudAccount", "broken", OLD, False))) is None


def test_one_of_another_operator_is_none() -> None:
    known = cache(SHARED, ("ClusterCloudAccount", "older", OLD, True), ("CloudAccount", "own", NEW, True))
    mine = Settings(watch_namespaces=("team",), namespace="relay-of-the-team")
    assert chosen(mine, known) == ObjectKey("CloudAccount", "team", "own")
    theirs = Settings(watch_namespaces=("lab",), namespace="relay")
    assert chosen(theirs, known) == ObjectKey("ClusterCloudAccount", "", "default")
