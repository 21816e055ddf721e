"""Where the API has kinds."""

from __future__ import annotations

import pytest

from kubexm.components.api.resources import Kind, discovered, known_resource


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (Kind("", "v1", "Pod"), "/api/v1/namespaces/ns/pods/x"),
        (Kind("", "v1", "Node"), "/api/v1/nodes/x"),
        (Kind("", "v1", "Endpoints"), "/api/v1/namespaces/ns/endpoints/x"),
        (Kind("apps", "v1", "DaemonSet"), "/apis/apps/v1/namespaces/ns/daemonsets/x"),
        (
            Kind("networking.k8s.io", "v1", "NetworkPolicy"),
            "/apis/networking.k8s.io/v1/namespaces/ns/networkpolicies/x",
        ),
        (Kind("networking.k8s.io", "v1", "Ingress"), "/apis/networking.k8s.io/v1/namespaces/ns/ingresses/x"),
        (Kind("storage.k8s.io", "v1", "StorageClass"), "/apis/storage.k8s.io/v1/storageclasses/x"),
        (Kind("policy", "v1", "PodDisruptionBudget"), "/apis/policy/v1/namespaces/ns/poddisruptionbudgets/x"),
    ],
)
def test_kinds_every_cluster_has_need_no_question(kind: Kind, path: str) -> None:
    found = known_resource(kind)
    assert found is not None
    assert found.path("ns", "x") == path


def test_other_kinds_are_found_in_what_the_api_lists_and_subresources_are_not_taken_for_them() -> None:
    kind = Kind("example.com", "v1", "Goose")
    assert known_resource(kind) is None
    assert known_resource(Kind("example.com", "v1", "Deployment")) is None, "a kind of that name in another group"
    listed = {
        "resources": [
            {"name": "geese/status", "kind": "Goose", "namespaced": False},
            {"name": "geese", "kind": "Goose", "namespaced": True},
        ]
    }
    found = discovered(kind, listed)
    assert found is not None
    assert found.path("ns", "x", "status") == "/apis/example.com/v1/namespaces/ns/geese/x/status"
    assert found.path() == "/apis/example.com/v1/geese"
    assert discovered(Kind("example.com", "v1", "Duck"), listed) is None
