"""Which namespaces an account admits, by their labels. Pure."""

from collections.abc import Mapping

from relay_operator.kinds.cloudaccount import LabelOperator, LabelRequirement, LabelSelector


def admits(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a namespace with these labels is selected; an empty selector admits all, as in Kubernetes."""
    exact = (selector.match_labels or {}).items()
    return all(labels.get(key) == value for key, value in exact) and all(
        _holds(requirement, labels) for requirement in selector.match_expressions or ()
    )


def admits_all(selector: LabelSelector) -> bool:
    """Whether no label needs to be looked at."""
    return not selector.match_labels and not selector.match_expressions


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    value, listed = labels.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case LabelOperator.IN:
            return value in listed
        case LabelOperator.NOT_IN:
            return value not in listed  # an absent label is in no list
        case LabelOperator.EXISTS:
            return value is not None
        case LabelOperator.DOES_NOT_EXIST:
            return value is None
