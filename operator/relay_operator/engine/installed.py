"""Which kinds the API server knows: a kind whose CRD is absent has no objects, and the others go on."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from relay_kube.errors import KubeError
from relay_kube.kube import Kube
from relay_operator.api.meta import GROUP, VERSION

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Installed:
    """The CRDs as the API server had them when it was asked last."""

    kube: Kube
    plurals: Sequence[str]
    """Of all kinds of this release."""
    absent: tuple[str, ...] = ()

    async def ask(self) -> frozenset[str]:
        """The plurals of the kinds that the API server has. Raises KubeError, also if it has none of them."""
        served = await self.kube.served(GROUP, VERSION)
        absent = tuple(plural for plural in self.plurals if plural not in served)
        if absent != self.absent:
            self.absent = absent
            logger.warning("%s", self.lacking() or "all CRDs are there")
        if len(absent) == len(self.plurals):
            raise KubeError(404, "NotFound", "the API server has none of them")
        return served

    def lacking(self) -> str | None:
        """Which CRDs are absent; None if all are there."""
        return f"the API server lacks {', '.join(self.absent)}: apply the CRDs" if self.absent else None
