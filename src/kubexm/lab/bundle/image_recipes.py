"""The images of a lab bundle: what each has inside and how it starts, as upstream's does. Recipes only.

Everything shares a small base; kube-proxy and flannel share one layer of network tools, since those bring libraries.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubexm.lab.bundle.archives import NET_BIND_SERVICE
from kubexm.lab.bundle.artefacts import Artefact
from kubexm.lab.bundle.debian import DebianFiles
from kubexm.lab.bundle.gobuild import CProgram, GoPrograms
from kubexm.lab.bundle.images import Image, Layer
from kubexm.lab.bundle.trees import Certificates, Debian, Empty, Merged, Part, Static, Symlink, Taken, Text

__all__ = ["HAPROXY_LAUNCHER", "ImageRecipes", "haproxy_parts"]

_USERS = """\
root:x:0:0:root:/root:/sbin/nologin
haproxy:x:99:99:haproxy:/var/lib/haproxy:/sbin/nologin
user-defined-in-image:x:1000:1000::/:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
"""
_GROUPS = """\
root:x:0:
haproxy:x:99:
user-defined-in-image:x:1000:
group-defined-in-image:x:50000:user-defined-in-image
nobody:x:65534:
nonroot:x:65532:
"""
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"

_IPTABLES = ("iptables", "iptables-restore", "iptables-save", "ip6tables", "ip6tables-restore", "ip6tables-save")
_APPLETS = (
    *("ash", "awk", "base64", "basename", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dirname", "du"),
    *("echo", "env", "expr", "false", "find", "free", "grep", "gunzip", "gzip", "head", "hostname", "id", "ip", "kill"),
    *("ln", "ls", "md5sum", "mkdir", "mktemp", "more", "mount", "mv", "nc", "netstat", "nslookup", "od", "ping", "ps"),
    *("pwd", "readlink", "realpath", "rm", "rmdir", "route", "sed", "seq", "sh", "sha256sum", "sleep", "sort", "stat"),
    *("sync", "tail", "tar", "tee", "telnet", "test", "time", "timeout", "top", "touch", "tr", "true", "umount"),
    *("uname", "uniq", "vi", "wc", "wget", "which", "whoami", "xargs", "yes"),
)
HAPROXY_LAUNCHER = """\
#!/bin/sh
# Starts the HAProxy of this tree from wherever the tree is, with the tree's own loader and libraries.
# It is what HAProxy believes itself to be called, so that a reload, which starts it anew, comes through here again.
here=$(CDPATH='' cd -- "${0%/*}" && pwd -P) || exit 1
root=${here%/usr/local/sbin}
exec "$root/@LOADER@" --argv0 "$here/haproxy-relocated" --library-path "$root/@LIBRARIES@" \\
    "$root/usr/local/sbin/haproxy" "$@"
"""
_LOADERS = {"amd64": "usr/lib64/ld-linux-x86-64.so.2", "arm64": "usr/lib/ld-linux-aarch64.so.1"}
_REGISTRY_CONFIG = """\
version: 0.1
storage:
  filesystem:
    rootdirectory: /var/lib/registry
http:
  addr: :5000
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipes:
    """Makes image recipes for one architecture, out of one set of Debian's files."""

    arch: str
    triplet: str
    debian: DebianFiles

    @property
    def base(self) -> Layer:
        """What any program may expect: users, certificate authorities, a place for temporary files."""
        return Layer(
            name="layer-base",
            parts=(
                Text(path="etc/passwd", content=_USERS),
                Text(path="etc/group", content=_GROUPS),
                Text(path="etc/nsswitch.conf", content=_NSSWITCH),
                Certificates(packages=self.debian, path="etc/ssl/certs/ca-certificates.crt"),
                Empty(path="tmp", mode=0o1777),
                Empty(path="var/tmp", mode=0o1777),
                Empty(path="root", mode=0o700),
                Empty(path="home/nonroot", mode=0o755),
                Empty(path="run"),
                *(Empty(path=f"usr/{name}") for name in ("bin", "sbin", "lib", "lib64")),
                Merged(),
            ),
        )

    @property
    def network_tools(self) -> Layer:
        """What kube-proxy and flannel call: iptables (nftables underneath), nft, ipset, conntrack, ip, modprobe."""
        tools = ("xtables-nft-multi", "iptables-nft*", "ip6tables-nft*", "ipset", "conntrack", "nft")
        links = [Symlink(path=f"usr/sbin/{name}", target="xtables-nft-multi") for name in _IPTABLES]
        return Layer(
            name="layer-network-tools",
            parts=(
                Debian(
                    packages=self.debian,
                    files=(
                        *(f"usr/sbin/{name}" for name in tools),
                        f"usr/lib/{self.triplet}/xtables/*.so",
                        "bin/ip",
                        "bin/kmod",
                        "sbin/modprobe",
                    ),
                ),
                *links,
            ),
        )

    @property
    def shell(self) -> Layer:
        """busybox: a shell and the small tools scripts use."""
        return Layer(
            name="layer-shell",
            parts=(
                Static(packages=self.debian, package="busybox-static", files=(("bin/busybox", "usr/bin/busybox"),)),
                *(Symlink(path=f"usr/bin/{name}", target="busybox") for name in _APPLETS if name != "ip"),
            ),
        )

    def control_plane(self, programs: GoPrograms, name: str, version: str) -> Image:
        """kube-apiserver, kube-controller-manager or kube-scheduler."""
        capability = NET_BIND_SERVICE if name == "kube-apiserver" else b""
        own = Taken(path=f"usr/local/bin/{name}", artefact=programs, file=name, capability=capability)
        return self._image(name, version, (self.base,), (own,))

    def kube_proxy(self, programs: GoPrograms, version: str) -> Image:
        """kube-proxy with the network tools."""
        own = Taken(path="usr/local/bin/kube-proxy", artefact=programs, file="kube-proxy")
        return self._image("kube-proxy", version, (self.base, self.network_tools), (own,))

    def pause(self, program: CProgram, version: str) -> Image:
        """pause, and nothing else."""
        own = Taken(path="pause", artefact=program, file="pause")
        return self._image("pause", version, (), (own,), made_from=program, entrypoint=("/pause",), user="65535:65535")

    def etcd(self, programs: GoPrograms, version: str) -> Image:
        """etcd and its tools."""
        own = [Taken(path=f"usr/local/bin/{x}", artefact=programs, file=x) for x in ("etcd", "etcdctl", "etcdutl")]
        return self._image("etcd", version, (self.base,), (*own, Empty(path="var/lib/etcd", mode=0o700)))

    def coredns(self, programs: GoPrograms, version: str) -> Image:
        """CoreDNS, which may open port 53 though it is not root."""
        own = Taken(path="coredns", artefact=programs, file="coredns", capability=NET_BIND_SERVICE)
        return self._image("coredns", version, (self.base,), (own,), entrypoint=("/coredns",), user="nonroot:nonroot")

    def flannel(self, programs: GoPrograms, version: str) -> Image:
        """flanneld with the network tools, and a shell for the container that puts its configuration in place."""
        own = Taken(path="opt/bin/flanneld", artefact=programs, file="flanneld")
        layers = (self.base, self.network_tools, self.shell)
        return self._image("flannel", version, layers, (own,), entrypoint=("/opt/bin/flanneld",))

    def flannel_cni_plugin(self, programs: GoPrograms, version: str) -> Image:
        """flannel's CNI plugin, and what copies it to the host."""
        own = Taken(path="flannel", artefact=programs, file="flannel")
        return self._image("flannel-cni-plugin", version, (self.base, self.shell), (own,))

    def local_path_provisioner(self, programs: GoPrograms, version: str) -> Image:
        """The provisioner."""
        own = Taken(path="usr/bin/local-path-provisioner", artefact=programs, file="local-path-provisioner")
        layers = (self.base, self.shell)
        return self._image("local-path-provisioner", version, layers, (own,), command=("local-path-provisioner",))

    def busybox(self, version: str) -> Image:
        """A shell and small tools."""
        return Image(name=f"image-busybox-{version}", arch=self.arch, layers=(self.base, self.shell), command=("sh",))

    def agnhost(self, programs: GoPrograms, version: str) -> Image:
        """agnhost, with a shell for what it runs on request."""
        parts: tuple[Part, ...] = (
            Taken(path="agnhost", artefact=programs, file="agnhost"),
            Symlink(path="agnhost-2", target="agnhost"),
            Taken(path="localhost.crt", artefact=programs, file="localhost.crt", mode=0o644),
            Taken(path="localhost.key", artefact=programs, file="localhost.key", mode=0o644),
            Empty(path="uploads"),
        )
        layers = (self.base, self.shell)
        return self._image(
            "agnhost", version, layers, parts, made_from=programs, entrypoint=("/agnhost",), command=("pause",)
        )

    def haproxy(self, version: str) -> Image:
        """HAProxy."""
        layer = Layer(name=f"layer-haproxy-{version}", parts=haproxy_parts(self.debian))
        return Image(
            name=f"image-haproxy-{version}",
            arch=self.arch,
            layers=(self.base, layer),
            entrypoint=("/usr/local/sbin/haproxy",),
            command=("-f", "/usr/local/etc/haproxy/haproxy.cfg"),
            user="haproxy",
            directory="/var/lib/haproxy",
        )

    def haproxy_tree(self) -> tuple[Part, ...]:
        """HAProxy's image as one tree, for running without a container: in it as root directory, or from anywhere."""
        launcher = HAPROXY_LAUNCHER.replace("@LOADER@", _LOADERS[self.arch])
        launcher = launcher.replace("@LIBRARIES@", f"usr/lib/{self.triplet}")
        path = "usr/local/sbin/haproxy-relocated"
        return (*self.base.parts, *haproxy_parts(self.debian), Text(path=path, content=launcher, mode=0o755))

    def registry(self, programs: GoPrograms, version: str) -> Image:
        """The distribution registry."""
        parts: tuple[Part, ...] = (
            Taken(path="usr/local/bin/registry", artefact=programs, file="registry"),
            Text(path="etc/distribution/config.yml", content=_REGISTRY_CONFIG),
            Empty(path="var/lib/registry"),
        )
        return self._image(
            "registry",
            version,
            (self.base,),
            parts,
            entrypoint=("registry",),
            command=("serve", "/etc/distribution/config.yml"),
            environment=("OTEL_TRACES_EXPORTER=none",),
        )

    def _image(
        self,
        name: str,
        version: str,
        layers: tuple[Layer, ...],
        parts: tuple[Part, ...],
        *,
        made_from: Artefact | None = None,
        entrypoint: tuple[str, ...] = (),
        command: tuple[str, ...] = (),
        user: str = "",
        environment: tuple[str, ...] = (),
    ) -> Image:
        """Layers that are shared and one of its own; `made_from` tells apart what has one version but two sources."""
        suffix = f"{name}-{version}" if made_from is None else f"{name}-{version}-{made_from.name.rpartition('-')[2]}"
        own = Layer(name=f"layer-{suffix}", parts=parts)
        return Image(
            name=f"image-{suffix}",
            arch=self.arch,
            layers=(*layers, own),
            entrypoint=entrypoint,
            command=command,
            user=user,
            environment=environment,
        )


def haproxy_parts(debian: DebianFiles) -> tuple[Part, ...]:
    """Debian's HAProxy where upstream's image has it, with its libraries and the directories it expects."""
    return (
        Debian(packages=debian, files=("usr/sbin/haproxy",), moved=(("usr/sbin/haproxy", "usr/local/sbin/haproxy"),)),
        Empty(path="usr/local/etc/haproxy"),
        Empty(path="var/lib/haproxy"),
        Empty(path="run/haproxy"),
    )
