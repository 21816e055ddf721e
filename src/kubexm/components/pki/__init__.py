"""Every CA, certificate, key and kubeconfig of a cluster, made on this machine as kubeadm would make them.

They are kept 0600 in the work directory under fixed names (`names`), and PKI_ISSUED says that all of them are there.
Components put them on hosts with one node each, which waits for PKI_ISSUED itself:

    files = place_files(g, etcd_files(), on=members)                              # node `….pki`
    start = g.add("start", ServiceRunning(unit="etcd", inputs=paths(etcd_files())), on=members, after_same_host=[files])

`control_plane_files(cluster)`, `etcd_files()` and `kubelet_files()` are the sets there are; owner and group may be
named where a program does not run as root. For any other place: `FilePresent(path=…, content=SecretRef(name))`.

The certificate API servers call kubelets with, and admin.conf, are of the group `kubeadm:cluster-admins`: somebody with
super-admin.conf must bind that to cluster-admin, as kubeadm does.
"""

from kubexm.components.pki.files import (
    PkiFile,
    PkiFilesPresent,
    control_plane_files,
    etcd_files,
    kubelet_files,
    paths,
    place_files,
)
from kubexm.components.pki.module import Pki
from kubexm.components.pki.signing import sign_node

__all__ = [
    "Pki",
    "PkiFile",
    "PkiFilesPresent",
    "control_plane_files",
    "etcd_files",
    "kubelet_files",
    "paths",
    "place_files",
    "sign_node",
]
