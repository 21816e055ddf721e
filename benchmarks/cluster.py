"""A cluster of three control planes and two workers from bare lab hosts: kubexm beside an expert's own script.

Needs root and the lab bundle (`kubexm lab bundle`). Each way starts from a lab of its own, fresh each time; what is
timed begins with bare hosts and ends with all nodes Ready and DNS rolled out. kubexm goes on from there to its proof,
which the script has none of: the time with it is told too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import machine, say, spread, table, target
from kubexm.assets import Bundle, ImageArchive, assets_for
from kubexm.components.containerd.config import RuntimeSettings, config_toml, unit_file
from kubexm.components.documents import yaml_stream
from kubexm.components.flannel.manifests import flannel_objects
from kubexm.config import load
from kubexm.lab import Lab
from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle

SCRIPT = "an expert's script"
TOPOLOGY = "3+2"
WAYS = {
    "kubeadm, etcd under systemd": ("kubeadm", "kubexm", "≤ 0.7"),
    "kubeadm, stacked etcd": ("kubeadm", "kubeadm", "≤ 0.85"),
    "binaries under systemd": ("kubexm", "kubexm", "≤ 0.5"),
}
SAME_POINT = ("nodes.settle.ready", "verify.state.workloads")
"""What has ended when kubexm is where the script ends: nodes are Ready, and DNS (and the network) rolled out."""
SETTLED = 10.0
"""Seconds between the first run and the second: pods of the proof are still being removed right after it."""
KUBELET = """[Unit]
Description=kubelet
After=containerd.service
[Service]
Environment=KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS --kubeconfig=/etc/kubernetes/kubelet.conf \
 --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
"""


@contextmanager
def fresh_lab() -> Iterator[tuple[Lab, Path]]:
    """A lab of bare hosts and its cluster file; gone afterwards."""
    lab = Lab(f"bench-{os.getpid()}")
    with tempfile.TemporaryDirectory(prefix="kubexm-bench-") as folder:
        file = Path(folder) / "cluster.yaml"
        try:
            lab.up(topology=TOPOLOGY, save=file)
            yield lab, file
        finally:
            lab.down()


def pack(bundle: Bundle, version: str, file: Path, target_path: Path) -> None:
    """The expert's payload: the same for every host, made beforehand and not timed."""
    chosen = assets_for(
        bundle.manifest,
        roles={"controlPlane", "worker"},
        arch=bundle.manifest.arch,
        kubernetes=version,
        features={"kubeadm", "stackedEtcd", "flannel"},
    )
    images = {image.name: image.reference for image in chosen.images}
    cluster = load(file).cluster
    runtime = next(item.entry for item in chosen.files if item.entry.name == "containerd")
    settings = RuntimeSettings(
        version=runtime.version, sandbox_image=images["pause"], data_dir="/var/lib/containerd", restrict_oom_score=True
    )
    objects = flannel_objects(cluster, image=images["flannel"], plugin_image=images["flannel-cni-plugin"])
    daemon = next(made for made in objects if made["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    container = daemon["containers"][0]
    # The script has no balancer on its nodes: through the service instead. And flannel's own manifest, which people
    # use, puts the configuration in place before flanneld starts.
    container["env"] = [each for each in container["env"] if not each["name"].startswith("KUBERNETES_SERVICE_")]
    del container["lifecycle"]
    mounts = [each for each in container["volumeMounts"] if each["name"] in ("cni", "flannel-cfg")]
    first = ["cp", "-f", "/etc/kube-flannel/cni-conf.json", "/etc/cni/net.d/10-flannel.conflist"]
    daemon["initContainers"].append(
        {"name": "install-cni", "image": images["flannel"], "command": first, "volumeMounts": mounts}
    )
    texts = {
        "containerd.toml": config_toml(settings),
        "containerd.service": unit_file(),
        "kubelet.service": KUBELET,
        "network.yaml": yaml_stream(objects),
    }
    names = {"containerd": "containerd.tar.gz", "cni-plugins": "cni-plugins.tgz", "crictl": "crictl.tar.gz"}
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target_path, "w") as out:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text)
        ImageArchive(bundle, chosen.images).write(Path(folder) / "images.tar")
        for path in sorted(Path(folder).iterdir()):
            out.add(path, path.name)
        for item in chosen.files:
            place = bundle.local_path(item.entry.path)
            if place is not None:
                out.add(place, names.get(item.entry.name, item.entry.name))


def by_script(payload: Path, version: str) -> dict[str, float]:
    """Seconds the expert's script takes, in all and phase by phase."""
    with fresh_lab() as (lab, file):
        hosts = load(file).cluster.hosts
        planes = " ".join(host.address for host in hosts if "controlPlane" in host.roles)
        workers = " ".join(host.address for host in hosts if "controlPlane" not in host.roles)
        access = [str(lab.access.private_key), str(lab.access.known_hosts)]
        began = time.perf_counter()
        command = ["benchmarks/expert.sh", str(payload), *access, version, planes, workers]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"error: the expert's script failed:\n{done.stderr[-2000:]}")
    phases = {name: float(took) for name, took in (line.split() for line in done.stdout.splitlines())}
    return {"same point": seconds, **phases}


def by_kubexm(kind: str, etcd: str) -> dict[str, float]:
    """Seconds of a first and of a second `create cluster`, its own figures, and the most memory it took."""
    with fresh_lab() as (_, file):
        text = re.sub(r"(?m)^(  kubernetes:\n)", rf"\1    type: {kind}\n", file.read_text())
        text = text if "\n  etcd:" in text else text + f"  etcd: {{type: {etcd}}}\n"
        file.write_text(text)
        first = create(file)
        time.sleep(SETTLED)
        again = create(file)
    return {**first, "again": again["seconds"], "trips": again["trips"]}


def create(file: Path) -> dict[str, float]:
    """One `create cluster` in a process of its own: wall seconds, peak memory, and what its timeline says."""
    began = time.perf_counter()
    log = file.with_suffix(".log")
    command = [sys.executable, "-m", "kubexm", "create", "cluster", "-f", str(file), "-o", "json"]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"error: create failed:\n{log.read_text()[-5000:]}")
    shown = subprocess.run(
        [sys.executable, "-m", "kubexm", "runs", "timeline", "last", "-f", str(file), "-o", "trace"],
        capture_output=True,
        text=True,
        check=True,
    )
    trace: dict[str, Any] = json.loads(shown.stdout)
    figures = trace["otherData"]
    ends = [event["ts"] + event["dur"] for event in trace["traceEvents"] if event["name"] in SAME_POINT]
    return {
        "seconds": seconds,
        "same point": seconds - figures["makespan"] + max(ends) / 1e6,
        "megabytes": usage.ru_maxrss / 1024,
        "makespan": figures["makespan"],
        "longest": figures["longestPath"],
        "added": figures["addedByKubexm"],
        "trips": max(figures["roundTrips"].values()),
    }


def main() -> None:
    """Prints the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    found = built_bundle(cache_directory())
    if found is None:
        raise SystemExit("error: there is no lab bundle\n  → make one: kubexm lab bundle")
    about = machine()  # the load before any of it
    with Bundle.open(found.path) as bundle, tempfile.TemporaryDirectory(prefix="kubexm-bench-") as folder:
        version = max(bundle.manifest.kubernetes)
        payload = Path(folder) / "payload.tar"
        with fresh_lab() as (_, file):
            pack(bundle, version, file, payload)
        rows: dict[str, list[dict[str, float]]] = {SCRIPT: [], **{way: [] for way in WAYS}}
        for number in range(options.rounds):
            rows[SCRIPT].append(by_script(payload, version))
            for way, (kind, etcd, _) in WAYS.items():
                rows[way].append(by_kubexm(kind, etcd))
            say(
                f"round {number + 1}: "
                + ", ".join(f"{way} {found[-1]['same point']:.0f} s" for way, found in rows.items())
            )
        size = payload.stat().st_size
    print(f"{about}. {TOPOLOGY} lab hosts, Kubernetes {version}; the script's payload is {size / 2**20:.0f} MiB.\n")
    show(rows)


def show(rows: dict[str, list[dict[str, float]]]) -> None:
    """Everything measured, beside what was aimed at."""

    def of(way: str, what: str) -> list[float]:
        return [each[what] for each in rows[way]]

    script = median(of(SCRIPT, "same point"))
    body = [[SCRIPT, spread(of(SCRIPT, "same point"), 0), "1", "", ""]]
    for way, (_, _, limit) in WAYS.items():
        same, whole = of(way, "same point"), of(way, "seconds")
        ratio = target(median(same) / script, limit)
        body.append([way, spread(same, 0), ratio, spread(whole, 0), f"{median(whole) / script:.2f}x"])
    heads = ["way", "s, all Ready and DNS out", "of the script's time", "s, with its proof", "of the script's time"]
    print(table(heads, body))
    phases = [name for name in rows[SCRIPT][0] if name != "same point"]
    told = (f"{name} {spread([each[name] for each in rows[SCRIPT]], 0)} s" for name in phases)
    print(f"The script's phases: {', '.join(told)}.\n")
    body = [
        [
            way,
            target(max(one["makespan"] / one["longest"] for one in rows[way]), "≤ 1.1"),
            f"{spread(of(way, 'added'), 1)} s (aim: < 3 s)",
            f"{spread(of(way, 'again'), 1)} s (aim: ≤ 8 s)",
            f"{max(of(way, 'trips')):.0f} (aim: ≤ 12)",
            f"{spread(of(way, 'megabytes'), 0)} MB (aim: < 150 MB)",
        ]
        for way in WAYS
    ]
    heads = ["way", "makespan to its longest path", "added by kubexm", "a second run", "its round trips", "memory"]
    print(table(heads, body))


if __name__ == "__main__":
    main()
