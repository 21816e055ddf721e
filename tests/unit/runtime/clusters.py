"""Small cluster.yaml files for tests of what is built from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HEAD = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
"""


def cluster_file(directory: Path, body: str, name: str = "cluster.yaml") -> Path:
    """A file with this spec, private as one with secrets should be."""
    path = directory / name
    path.write_text(HEAD + "".join(f"  {line}\n" for line in body.strip("\n").splitlines()))
    path.chmod(0o600)
    return path


LOCAL = """
hosts:
  - {name: n1, type: local}
roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n1]}
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="this machine stands in for a host, which needs root")
