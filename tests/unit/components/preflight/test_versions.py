"""`create` refuses hosts that run other versions than the file asks for, and leaves unknown versions alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.components.preflight import Preflight
from kubexm.errors import ConfigError, StepError
from kubexm.module import link
from kubexm.pipeline.create import CreateCluster
from kubexm.plan import ExecutionGraph
from kubexm.runner.facts.model import Program, Programs
from kubexm.runtime import Context, Transcript, UnitConnector
from kubexm.step import Check, Step
from tests.unit.components.preflight.fleet import Fleet, cluster


def programs(*running: Program) -> Programs:
    return Programs(running=running)


def process(name: str, version: str) -> Program:
    return Program(name=name, version=version, source="process")


def graph(context: Context) -> ExecutionGraph:
    return link(Preflight(keep_versions=True)).graph(context.pipeline_context(), name="check")


async def checked(context: Context, host: str) -> Check:
    step: Step = graph(context).nodes["preflight.contents.versions"].step
    connector = UnitConnector(context.host_runtimes[host].connector, Transcript)
    return await step.precheck(context.step_context("preflight.contents.versions", connector, "run-1"))


def container(name: str, version: str) -> Program:
    return Program(name=name, version=version, source="container")


@pytest.mark.parametrize(
    "running",
    [
        (),
        (process("kubelet", "v1.34.4"), process("containerd", "v2.1.9"), container("kube-apiserver", "v1.34.4")),
        (process("kubelet", ""), process("node-exporter", "v0.1.0"), Program(name="runc", version="v1.0.0")),
        (container("etcd", "v3.6.5"),),
    ],
)
async def test_hosts_that_run_what_the_file_says_pass(tmp_path: Path, running: tuple[Program, ...]) -> None:
    fleet = Fleet().change("cp1", "w1", programs=programs(*running))
    context = fleet.context(tmp_path)
    for host in ("cp1", "cp2", "w1"):
        assert (await checked(context, host)).satisfied


@pytest.mark.parametrize(
    ("running", "said"),
    [
        (process("kubelet", "v1.33.13"), "it runs kubelet v1.33.13, and the file asks for v1.34.4"),
        (process("kubelet", "v1.35.8"), "it runs kubelet v1.35.8, and the file asks for v1.34.4"),
        (container("kube-apiserver", "v1.34.2"), "it runs kube-apiserver v1.34.2"),
        (process("etcd", "v3.5.21"), "it runs etcd v3.5.21, and the file asks for v3.6.5"),
        (process("containerd", "v2.0.11"), "it runs containerd v2.0.11, and the file asks for v2.1.9"),
    ],
)
async def test_a_host_that_runs_another_version_is_refused(tmp_path: Path, running: Program, said: str) -> None:
    context = Fleet().change("cp2", programs=programs(running)).context(tmp_path)
    with pytest.raises(StepError) as caught:
        await checked(context, "cp2")
    assert said in caught.value.message
    assert f"ask for {running.version} in the file" in caught.value.hint
    assert (await checked(context, "cp1")).satisfied


async def test_all_that_differs_is_told_at_once(tmp_path: Path) -> None:
    old = (
        container("kube-apiserver", "v1.33.1"),
        container("kube-apiserver", "v1.34.4"),
        process("kubelet", "v1.33.1"),
    )
    context = Fleet().change("cp1", programs=programs(*old)).context(tmp_path)
    with pytest.raises(StepError) as caught:
        await checked(context, "cp1")
    assert "kube-apiserver v1.33.1, and" in caught.value.message
    assert "kubelet v1.33.1" in caught.value.message


def test_create_checks_versions_before_it_changes_anything(tmp_path: Path) -> None:
    plan = CreateCluster().plan(Fleet().context(tmp_path).pipeline_context())
    node = plan.nodes["preflight.contents.versions"]
    assert node.hosts == ("cp1", "cp2", "cp3", "w1", "w2")
    assert not node.excluded


def test_the_file_cannot_leave_this_check_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no check `versions`"):
        Fleet(cluster("preflight: {skip: [versions]}")).context(tmp_path)


def test_other_pipelines_do_not_have_it(tmp_path: Path) -> None:
    context = Fleet().context(tmp_path)
    plain = link(Preflight()).graph(context.pipeline_context(), name="check")
    assert "preflight.contents.versions" not in plain.nodes
