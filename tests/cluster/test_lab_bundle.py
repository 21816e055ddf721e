"""The real lab bundle: built (from the cache where it is there), verified, and every program and image in it started.

Cold builds are limited to what takes seconds; the rest comes from the cache `make test-cluster` fills.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from kubexm.assets.manifest import Manifest
from kubexm.assets.verification import verify
from kubexm.errors import LabError
from kubexm.lab.bundle import BundleBuild, PlainProgress
from kubexm.lab.bundle.archives import NET_BIND_SERVICE
from kubexm.lab.bundle.toolchain import Toolchain

VERSION = "v1.34.4"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="images are started in a changed root, which needs root")


@pytest.fixture(scope="session")
def bundle() -> Path:
    """The bundle of one Kubernetes version, from the user's cache."""
    return BundleBuild([VERSION], progress=PlainProgress(print)).run(install=True)


@pytest.fixture(scope="session")
def manifest(bundle: Path) -> Manifest:
    return Manifest.from_json((bundle / "manifest.json").read_bytes())


def run(*argv: str | Path, **options: object) -> str:
    """What a program prints, which must end well."""
    result = subprocess.run(
        [shutil.which(argv[0]) or str(argv[0]), *(str(word) for word in argv[1:])],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert result.returncode == 0, f"{argv}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    return str(result.stdout + result.stderr)


class Images:
    """The bundle's images, unpacked when asked for."""

    def __init__(self, bundle: Path, manifest: Manifest, directory: Path) -> None:
        self._bundle, self._manifest, self._directory = bundle, manifest, directory

    def config(self, name: str) -> dict[str, object]:
        """How the image starts."""
        document = json.loads(self._blob(self._manifest.image(name).blobs[1]).read_bytes())
        found: dict[str, object] = document["config"]
        return found

    def root(self, name: str) -> Path:
        """Its file system."""
        target = self._directory / name
        if not target.exists():
            for layer in self._layers(name):
                extract_all(layer, target)
        return target

    def members(self, name: str) -> list[tarfile.TarInfo]:
        """What its layers say of its files."""
        return [member for layer in self._layers(name) for member in layer]

    def _layers(self, name: str) -> Iterator[tarfile.TarFile]:
        for digest in self._manifest.image(name).blobs[2:]:
            with (
                self._blob(digest).open("rb") as packed,
                zstandard.ZstdDecompressor().stream_reader(packed) as plain,
                tarfile.open(fileobj=plain, mode="r|") as layer,
            ):
                yield layer

    def run(self, name: str, *argv: str) -> str:
        """What a program of the image prints, with nothing but the image to run in."""
        env = [entry for entry in self.config(name)["Env"] if isinstance(entry, str)]  # type: ignore[attr-defined]
        return run("chroot", self.root(name), *argv, env=dict(entry.split("=", 1) for entry in env))

    def _blob(self, digest: str) -> Path:
        return self._bundle / "images" / "blobs" / "sha256" / digest.removeprefix("sha256:")


def extract_all(archive: tarfile.TarFile, target: Path) -> None:
    """Unpacks what we built ourselves. The first releases of Python 3.11 know no filter, later ones insist on one."""
    if (trusting := getattr(tarfile, "tar_filter", None)) is not None:
        archive.extraction_filter = trusting
    archive.extractall(target)


@pytest.fixture(scope="module")
def images(bundle: Path, manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    directory = tmp_path_factory.mktemp("images")
    yield Images(bundle, manifest, directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def unpack(
    bundle: Path, manifest: Manifest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Path]]:
    """Unpacks a file of the bundle."""
    directory = tmp_path_factory.mktemp("files")

    def unpacked(name: str) -> Path:
        target = directory / name
        if not target.exists():
            with tarfile.open(bundle / manifest.file(name).path) as archive:
                extract_all(archive, target)
        return target

    yield unpacked
    shutil.rmtree(directory)


def test_it_verifies(bundle: Path) -> None:
    report = verify(bundle)
    assert report.ok, report.findings


def test_a_second_run_makes_nothing(bundle: Path) -> None:
    lines: list[str] = []
    assert BundleBuild([VERSION], progress=PlainProgress(lines.append)).run() == bundle
    assert lines == []


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("kubelet", ["--version"], f"Kubernetes {VERSION}"),
        ("kubeadm", ["version", "-o", "short"], VERSION),
        ("kubectl", ["version", "--client"], f"Client Version: {VERSION}"),
        ("kube-apiserver", ["--version"], f"Kubernetes {VERSION}"),
        ("kube-controller-manager", ["--version"], f"Kubernetes {VERSION}"),
        ("kube-scheduler", ["--version"], f"Kubernetes {VERSION}"),
        ("kube-proxy", ["--version"], f"Kubernetes {VERSION}"),
    ],
)
def test_kubernetes_knows_its_version(
    bundle: Path, manifest: Manifest, tmp_path: Path, name: str, argv: list[str], expected: str
) -> None:
    program = tmp_path / name
    shutil.copy(bundle / manifest.file(name).path, program)
    program.chmod(0o755)
    assert expected in run(program, *argv)
    program.unlink()


def test_archives_have_upstreams_layout(unpack: Callable[[str], Path], manifest: Manifest) -> None:
    etcd = manifest.file("etcd").version
    programs = unpack("etcd") / f"etcd-{etcd}-linux-{manifest.arch}"
    assert f"etcd Version: {etcd.removeprefix('v')}" in run(programs / "etcd", "--version")
    assert f"etcdctl version: {etcd.removeprefix('v')}" in run(programs / "etcdctl", "version")
    assert f"etcdutl version: {etcd.removeprefix('v')}" in run(programs / "etcdutl", "version")
    containerd = manifest.file("containerd").version
    for name in ("containerd", "ctr", "containerd-shim-runc-v2"):
        assert containerd in run(unpack("containerd") / "bin" / name, "-v" if "shim" in name else "--version")
    assert manifest.file("crictl").version in run(unpack("crictl") / "crictl", "--version")
    plugins = {path.name for path in unpack("cni-plugins").iterdir()}
    assert {"bridge", "host-local", "loopback", "portmap", "bandwidth", "firewall", "tuning"} <= plugins
    spoken = subprocess.run(
        [unpack("cni-plugins") / "bridge"], env={"CNI_COMMAND": "VERSION"}, input="{}", capture_output=True, text=True
    )
    assert "1.0.0" in json.loads(spoken.stdout)["supportedVersions"]


def test_runc_has_seccomp_and_needs_no_library(bundle: Path, manifest: Manifest, tmp_path: Path) -> None:
    program = tmp_path / "runc"
    shutil.copy(bundle / manifest.file("runc").path, program)
    program.chmod(0o755)
    features = json.loads(run("chroot", tmp_path, "/runc", "features"))
    assert features["linux"]["seccomp"]["enabled"] is True
    assert "SCMP_ACT_ERRNO" in features["linux"]["seccomp"]["actions"]


@pytest.mark.parametrize(
    ("name", "argv", "expected"),
    [
        ("kube-apiserver", ["kube-apiserver", "--version"], VERSION),
        ("kube-controller-manager", ["kube-controller-manager", "--version"], VERSION),
        ("kube-scheduler", ["kube-scheduler", "--version"], VERSION),
        ("kube-proxy", ["/usr/local/bin/kube-proxy", "--version"], VERSION),
        ("pause", ["/pause", "-v"], "pause.c v3.10"),
        ("etcd", ["etcd", "--version"], "etcd Version: 3."),
        ("coredns", ["/coredns", "-version"], "CoreDNS-1."),
        ("flannel", ["/opt/bin/flanneld", "--version"], "v0."),
        ("flannel", ["sh", "-c", "echo x > /tmp/x && cp -f /tmp/x /tmp/y && cat /tmp/y"], "x"),
        ("flannel-cni-plugin", ["sh", "-c", "cp -f /flannel /tmp/flannel && ls /tmp"], "flannel"),
        ("local-path-provisioner", ["local-path-provisioner", "--version"], "v0.0."),
        ("busybox", ["sh", "-c", "mkdir -m 0777 -p /tmp/a/b && rm -rf /tmp/a && id"], "uid=0(root)"),
        ("agnhost", ["/agnhost", "--version"], "app version 2."),
        ("haproxy", ["/usr/local/sbin/haproxy", "-v"], "HAProxy version 2.6.12"),
    ],
)
def test_images_start(images: Images, name: str, argv: list[str], expected: str) -> None:
    assert expected in images.run(name, *argv)


def test_images_start_what_their_config_names(images: Images, manifest: Manifest) -> None:
    for image in manifest.images:
        config = images.config(image.name)
        words = [*config.get("Entrypoint", ()), *config.get("Cmd", ())]  # type: ignore[misc]
        if words:
            root = images.root(image.name)
            folders = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin")
            places = [root / words[0].lstrip("/"), *(root / folder / words[0] for folder in folders)]
            assert any(os.access(place, os.X_OK) for place in places), image.name


def test_what_the_catalog_calls_agnhost_is_what_its_source_calls_itself(bundle: Path, manifest: Manifest) -> None:
    entry = BundleBuild([VERSION]).state()[f"agnhost-{VERSION}"]
    assert entry is not None, "the bundle is there, so what it was made from is"
    assert entry.path("VERSION").read_text().strip() == manifest.image("agnhost").version


def test_servers_that_may_open_low_ports_without_being_root(images: Images) -> None:
    for name, path in (("coredns", "coredns"), ("kube-apiserver", "usr/local/bin/kube-apiserver")):
        (member,) = [member for member in images.members(name) if member.name == path]
        assert member.pax_headers["SCHILY.xattr.security.capability"].encode() == NET_BIND_SERVICE


@pytest.mark.parametrize("name", ["kube-proxy", "flannel"])
def test_network_tools_find_every_library_they_open(images: Images, name: str) -> None:
    for argv in (["iptables", "-V"], ["ip6tables-save", "-V"], ["ip", "-V"], ["conntrack", "-V"], ["nft", "-v"]):
        images.run(name, *argv)
    assert "nf_tables" in images.run(name, "iptables-restore", "-V")
    images.run(name, "ipset", "version")
    images.run(name, "modprobe", "--version")
    plugins = sorted((images.root(name) / "usr/lib").glob("*/xtables/libxt_*.so"))
    assert len(plugins) > 50
    environment = {"PATH": "/usr/sbin:/usr/bin"}
    for plugin in plugins:
        word = plugin.stem.removeprefix("libxt_")
        if word == "standard":
            continue  # behind ACCEPT and DROP; it cannot be named
        option = "-j" if word.isupper() else "-m"
        argv = ["chroot", str(images.root(name)), "iptables", option, word, "--help"]
        result = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        said = result.stdout + result.stderr
        assert "cannot open shared object" not in said, f"{word}: {said}"
        assert "undefined symbol" not in said, f"{word}: {said}"
        assert f"Couldn't load match `{word}'" not in said, said


def test_haproxy_runs_from_any_directory_with_nothing_else_there(
    unpack: Callable[[str], Path], images: Images, tmp_path: Path
) -> None:
    tree = unpack("haproxy")
    assert "HAProxy version 2.6.12" in run("chroot", tree, "/usr/local/sbin/haproxy", "-v")
    bare = tmp_path / "bare"
    shutil.copytree(tree, bare / "opt" / "some where", symlinks=True)
    (bare / "bin").mkdir()
    shutil.copy(images.root("busybox") / "usr/bin/busybox", bare / "bin" / "sh")
    said = run("chroot", bare, "/opt/some where/usr/local/sbin/haproxy-relocated", "-vv", env={})
    assert "HAProxy version 2.6.12" in said
    assert "Built with OpenSSL" in said
    shutil.rmtree(bare)


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_words: object) -> None:
        """Nothing."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 180
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_haproxy_reloads_where_it_is_and_keeps_connections(unpack: Callable[[str], Path], tmp_path: Path) -> None:
    backend = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    port, stats = _free_port(), tmp_path / "stats.sock"
    config = tmp_path / "haproxy.cfg"
    config.write_text(
        f"""
global
    stats socket {stats} mode 600 level admin expose-fd listeners
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend api
    bind 127.0.0.1:{port}
    default_backend apis
backend apis
    server one 127.0.0.1:{backend.server_port} check
"""
    )
    launcher = unpack("haproxy") / "usr/local/sbin/haproxy-relocated"
    master = subprocess.Popen([launcher, "-W", "-f", config], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={})

    def answers() -> bool:
        try:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
                connection.request("GET", "/")
                return connection.getresponse().status == 200
        except OSError:
            return False

    def workers() -> set[int]:
        children = Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split()
        return {int(pid) for pid in children}

    try:
        _until(answers, "HAProxy never answered")
        (first,) = workers()
        held = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        held.request("GET", "/")
        assert held.getresponse().read() == b"ok"
        master.send_signal(signal.SIGUSR2)
        _until(lambda: bool(workers() - {first}), "no new worker after the reload")
        assert answers()
        held.request("GET", "/")
        assert held.getresponse().read() == b"ok", "a connection from before the reload is still served"
        held.close()
        _until(lambda: first not in workers(), "the old worker stayed though it had nothing left to do")
    finally:
        master.terminate()
        master.communicate(timeout=30)
        backend.shutdown()
        backend.server_close()


def test_containerd_takes_every_image_and_unpacks_it(
    bundle: Path, manifest: Manifest, unpack: Callable[[str], Path], tmp_path: Path
) -> None:
    programs = unpack("containerd") / "bin"
    address = tmp_path / "c.sock"
    config = tmp_path / "config.toml"
    config.write_text(
        f"""
version = 3
root = "{tmp_path}/root"
state = "{tmp_path}/state"
disabled_plugins = ["io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri"]
[grpc]
  address = "{address}"
[ttrpc]
  address = "{tmp_path}/t.sock"
"""
    )
    log = (tmp_path / "log").open("wb")
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    # it makes directories in /run and /opt whatever it is told: give it its own
    apart = 'mount -t tmpfs none /run && mount -t tmpfs none /opt && exec "$0" --config "$1"'
    argv: list[str | Path] = ["unshare", "--mount", "sh", "-c", apart, programs / "containerd", config]
    daemon = subprocess.Popen(argv, stdout=log, stderr=log, env=env)
    ctr = (programs / "ctr", "--address", address, "--namespace", "k8s.io")

    def ready() -> bool:
        assert daemon.poll() is None, (tmp_path / "log").read_text()[-2000:]
        return subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode == 0

    try:
        _until(ready, "containerd never answered")
        archive = tmp_path / "images.tar"
        run("tar", "-C", bundle / "images", "-cf", archive, ".")
        run(*ctr, "images", "import", "--local", "--snapshotter", "native", archive)
        listed = run(*ctr, "images", "ls", "-q").split()
        assert {image.reference for image in manifest.images} <= set(listed)
        checked = run(*ctr, "images", "check", "--snapshotter", "native", "-q").split()
        assert {image.reference for image in manifest.images} <= set(checked)
    finally:
        daemon.terminate()
        daemon.wait(30)
        log.close()
        shutil.rmtree(tmp_path / "root", ignore_errors=True)


def test_packages_are_there_with_all_a_minimal_debian_lacks(bundle: Path, manifest: Manifest) -> None:
    (group,) = manifest.packages
    assert group.target == f"debian-12-{manifest.arch}"
    assert {"conntrack", "socat", "ipset", "ebtables", "ethtool", "iptables", "kmod"} <= set(group.requested)
    names = {package.name for package in group.packages}
    assert {"libnetfilter-conntrack3", "libipset13", "libxtables12", "libnftnl11", "libkmod2", "libssl3"} <= names
    assert "libc6" not in names, "what every Debian has is not carried"
    for package in group.packages:
        shown = run("dpkg-deb", "--field", bundle / package.path, "Package", "Version")
        assert shown.split() == ["Package:", package.name, "Version:", package.version]


def _processes_in(directory: Path) -> list[str]:
    """The command lines of processes that name this directory, or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if int(process.name) != os.getpid() and (
                str(directory) in line or str(directory) in str((process / "cwd").readlink())
            ):
                found.append(line)
    return found


@pytest.mark.skipif(bool(Toolchain().missing(["go", "gcc"])), reason="no Go or no C compiler here")
def test_the_same_inputs_give_the_same_bytes_wherever_they_are_built_and_even_if_killed(tmp_path: Path) -> None:
    names = ["pause-3.10.1-v1.34.4", "flannel-cni-plugin-v0.9.1"]
    one, other = tmp_path / "one", tmp_path / "another place, with a longer name"
    command = [sys.executable, "-m", "kubexm", "lab", "bundle", "--only", names[0], "--only", names[1]]
    build = subprocess.Popen(command, env={**os.environ, "KUBEXM_CACHE": str(one)}, stderr=subprocess.DEVNULL)
    compiling = f"{one}/bundle/work/flannel-cni-plugin"
    _until(lambda: any(compiling in line for line in _processes_in(one)), "the build never compiled anything")
    build.kill()
    build.wait(30)
    _until(lambda: not _processes_in(one), "a compiler outlived the build it was started by")

    found = []
    for place in (one, other):
        lines: list[str] = []
        entries = BundleBuild([VERSION], cache=place, progress=PlainProgress(lines.append)).provide(names)
        assert lines[0].startswith("1 of 2" if place is one else "2 of 2"), "what was finished is kept"
        found.append({(entry.name, file.path, file.sha256) for entry in entries.values() for file in entry.files})
        shutil.rmtree(place)
    assert found[0] == found[1]
    warm = BundleBuild([VERSION]).provide(names)
    assert {(entry.name, file.path, file.sha256) for entry in warm.values() for file in entry.files} == found[0]


@pytest.mark.skipif(bool(Toolchain().missing(["go"])), reason="no Go compiler here")
def test_without_a_module_proxy_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOPROXY", f"http://127.0.0.1:{_free_port()}")
        with pytest.raises(LabError, match="the Go module proxy does not answer") as caught:
            BundleBuild([VERSION], cache=tmp_path).provide(["flannel-cni-plugin-v0.9.1"])
    assert "GOPROXY" in caught.value.hint
    assert not list((tmp_path / "bundle" / "artefacts").glob("*"))
