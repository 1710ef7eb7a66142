"""GPUs that only the project's own node pretends to have."""

from __future__ import annotations

import os

import pytest

NEEDS_GPUS = pytest.mark.skipif(
    "RELAY_TEST_KUBECONFIG" in os.environ, reason="only the project's own node has pretended GPUs"
)
