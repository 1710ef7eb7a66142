"""What people are told to run, so that it can be pasted into a shell. Pure."""

from relay_operator.api.meta import ObjectKey


def annotate(key: ObjectKey, annotation: str) -> str:
    """An answer of theirs, `name=value`; what vanished keeps its answers where it is kept."""
    if key.vanished:
        return f"annotate {annotation}"
    return f"run: kubectl annotate --overwrite {_named(key)} {annotation}"


def let_go(key: ObjectKey) -> str:
    """The object goes, and what it has in the cloud stays."""
    answer = annotate(key, "gpurelay.dev/abandon=true")
    return answer if key.vanished else f"{answer} && kubectl delete --ignore-not-found {_named(key)}"


def _named(key: ObjectKey) -> str:
    return f"-n {key.namespace} {key.kind.lower()} {key.name}"
