"""What follows from the catalog alone: the default version, and how long each is supported."""

from __future__ import annotations

from itertools import pairwise

from kubexm import releases
from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from kubexm.config import loads
from kubexm.config.starters import TOPOLOGIES, starter
from tests.unit.config.files import MINIMAL


def test_the_default_is_the_newest_patch_of_the_second_newest_minor() -> None:
    minor = releases.minors()[-2]
    assert releases.default_kubernetes() == releases.kubernetes_data(minor)["newest"]
    assert str(DEFAULT_KUBERNETES) == releases.default_kubernetes()


def test_files_without_a_version_and_files_to_start_from_get_it() -> None:
    for text in (MINIMAL, *(starter(topology) for topology in TOPOLOGIES)):
        assert loads(text).cluster.spec.kubernetes.version == DEFAULT_KUBERNETES


def test_support_ends_in_the_order_of_minors() -> None:
    for earlier, later in pairwise(releases.minors()):
        assert releases.end_of_life(earlier) < releases.end_of_life(later)
