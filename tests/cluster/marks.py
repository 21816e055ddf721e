"""Which tests on lab hosts are run when, and what they cannot be run without."""

from __future__ import annotations

import os

import pytest

from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle

LONG = pytest.mark.skipif(
    os.environ.get("KUBEXM_CLUSTER_TESTS") != "full", reason="one of the long ones: make test-cluster-full"
)
PATIENT = pytest.mark.timeout(1800)
BUNDLE = pytest.mark.skipif(
    built_bundle(cache_directory()) is None, reason="there is no lab bundle: `kubexm lab bundle` makes one"
)
