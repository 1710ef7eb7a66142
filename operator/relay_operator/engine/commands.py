"""Commands for people to run, ready to paste into a shell. Pure."""

from relay_operator.api.meta import ObjectKey


def annotate(key: ObjectKey, annotation: str) -> str:
    """The command that sets an annotation, given as `name=value`.

    A vanished object is annotated on its ConfigMap, so that only the annotation is named.
    """
    if key.vanished:
        return f"annotate {annotation}"
    return f"run: kubectl annotate --overwrite {_named(key)} {annotation}"


def let_go(key: ObjectKey) -> str:
    """The command that deletes the object and keeps its resource in the cloud."""
    answer = annotate(key, "gpurelay.dev/abandon=true")
    return answer if key.vanished else f"{answer} && kubectl delete --ignore-not-found {_named(key)}"


def _named(key: ObjectKey) -> str:
    return f"-n {key.namespace} {key.kind.lower()} {key.name}"
