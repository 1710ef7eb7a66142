"""An admission policy of somebody else's, which refuses some of the operator's writes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.support.eventually import eventually
from tests.support.kube import KubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.kube import Kube, Manifest

GROUP = "admissionregistration.k8s.io/v1"
KIND = "ValidatingAdmissionPolicy"


@asynccontextmanager
async def refusing(
    kube: Kube, name: str, rule: Manifest, expression: str, message: str, rehearsal: Callable[[], Awaitable[object]]
) -> AsyncIterator[None]:
    """Refuses requests of the rule for which the CEL expression is false, with 422 and the message.

    `rehearsal` sends such a request as a dry run: the policy is in force once the API server refuses it.
    """
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": message}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}

    async def refused() -> bool:
        try:
            await rehearsal()
        except KubeError as error:
            return message in error.message
        return False

    try:
        await kube.apply({"apiVersion": GROUP, "kind": KIND, "metadata": {"name": name}, "spec": policy})
        await kube.apply({"apiVersion": GROUP, "kind": f"{KIND}Binding", "metadata": {"name": name}, "spec": binding})
        await eventually(refused, what="the policy is in force")
        yield
    finally:
        for each in (f"{KIND}Binding", KIND):
            await kube.delete(each, name)
