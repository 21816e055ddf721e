"""A person with a browser and lab hosts: register, plan, create, watch, lose a host, resume, verify, delete."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from ruamel.yaml import YAML

from kubexm.lab import Lab
from tests.browser import Watched, chromium, why_no_chromium
from tests.cluster.commands import kubectl
from tests.cluster.marks import BUNDLE, LONG, PATIENT

MakeLab = Callable[..., Lab]
MINUTES = 60_000

pytestmark = [
    PATIENT,
    pytest.mark.skipif(bool(why_no_chromium()), reason=why_no_chromium()),
    BUNDLE,
    LONG,
]


@pytest.fixture
def lab(make_lab: MakeLab) -> Iterator[Lab]:
    made = make_lab(topology="1+1")
    yield made
    made.down()


@pytest.fixture
def served(tmp_path: Path, lab: Lab) -> Iterator[tuple[str, str]]:
    """A server with the lab's bundle: its address and its first token."""
    bundle = Path(str(YAML(typ="safe").load(lab.cluster_file)["spec"]["assets"]["sources"][0]["bundle"]))
    (tmp_path / "data" / "bundles").mkdir(parents=True, mode=0o700)
    (tmp_path / "data" / "bundles" / bundle.name).symlink_to(bundle)
    log, words = tmp_path / "log", ("serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"))
    with log.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "kubexm", *words], stdout=file, stderr=file)
    try:
        deadline = time.monotonic() + 60
        while (shown := re.search(r"serves at (\S+)[\s\S]*token: +in (\S+)", log.read_text())) is None:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        yield shown[1], Path(shown[2]).read_text().strip()
    finally:
        process.terminate()
        process.wait(60)


def spec_of(lab: Lab) -> str:
    """The lab's cluster file as a server takes it: secrets and files by their names."""
    text = re.sub(r"privateKeyPath: .*", "privateKey: secret:key", lab.cluster_file.read_text())
    text = re.sub(r"knownHostsFile: .*", "knownHostsFile: known_hosts", text)
    return re.sub(r'bundle: "?[^"}]*/([^"/}]+)"?', r"bundle: \1", text)


def state(page: Page, words: str, minutes: float) -> None:
    expect(page.locator(".figures .badge")).to_contain_text(words, timeout=minutes * MINUTES)


def test_a_cluster_from_the_page_with_a_host_lost_on_the_way(lab: Lab, served: tuple[str, str]) -> None:
    url, token = served
    with chromium() as browser:
        watched = Watched(browser.new_page(viewport={"width": 1500, "height": 950}), url)
        watched.expected += ["401"]
        page = watched.page
        page.goto(url)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()

        # Register
        page.get_by_role("link", name="New cluster").first.click()
        page.get_by_label("cluster.yaml").fill(lab.cluster_file.read_text())
        expect(page.locator(".problems li.error").first).to_contain_text("on the server")
        watched.shot("lab-01-refused")
        page.get_by_label("cluster.yaml").fill(spec_of(lab))
        expect(page.get_by_text(f"{lab.name} is valid")).to_be_visible()
        page.get_by_label("Secret key").fill(lab.access.private_key.read_text())
        page.get_by_label("File known_hosts").set_input_files(lab.access.known_hosts)
        page.get_by_role("button", name="Register").click()

        # Plan, and carry it out
        page.get_by_role("button", name="Plan and create").click()
        expect(page.get_by_role("heading", name="Plan: create")).to_be_visible(timeout=3 * MINUTES)
        expect(page.locator(".module.box").first).to_be_visible()
        watched.shot("lab-02-plan")
        page.get_by_role("button", name="Carry it out").click()
        page.get_by_role("dialog").get_by_role("button", name="Carry it out").click()

        # A host is lost: it is the root cause, with what it said
        expect(page.locator('[data-module="containerd"]')).to_have_attribute(
            "data-state", re.compile("running|partly"), timeout=3 * MINUTES
        )
        watched.shot("lab-03-running")
        lab.cut("n2")
        try:
            state(page, "failed", 10)
            failure = page.get_by_role("region", name="What failed")
            expect(failure).to_contain_text("n2")
            expect(page.locator(".root").first).to_be_visible()
            watched.shot("lab-04-lost")
        finally:
            lab.heal("n2")

        # Resume, until everything is green
        page.get_by_role("button", name="Resume").click()
        state(page, "succeeded", 12)
        for box in page.locator(".box[data-state]").all():
            expect(box).to_have_attribute("data-state", re.compile("succeeded|satisfied|excluded"))
        watched.shot("lab-05-green")
        assert "Ready" in kubectl(lab, "get", "nodes")
        page.keyboard.press("4")
        page.get_by_text("verify", exact=True).click()
        page.get_by_role("button", name=re.compile("verify.probe.workloads")).click()
        expect(page.get_by_label("Output")).to_contain_text("server")
        page.get_by_role("tab", name="Timeline").click()
        expect(page.locator(".chain li").first).to_be_visible()
        watched.shot("lab-06-timeline")

        # Verify, delete, forget
        page.get_by_role("link", name=lab.name).first.click()
        expect(page.get_by_role("heading", name=lab.name)).to_be_visible()
        page.get_by_role("button", name="Verify", exact=True).click()
        state(page, "succeeded", 6)
        page.get_by_role("link", name=lab.name).first.click()
        expect(page.get_by_role("heading", name=lab.name)).to_be_visible()
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_label("Name of the cluster").fill(lab.name)
        page.get_by_role("dialog").get_by_role("button", name="Delete the cluster").click()
        state(page, "succeeded", 6)
        watched.shot("lab-07-deleted")
        assert "kubelet" not in lab.run("n1", "ps", "-eo", "comm")
        page.get_by_role("link", name=lab.name).first.click()
        page.get_by_role("button", name="Forget", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Forget it").click()
        expect(page.get_by_role("heading", name="Clusters")).to_be_visible()
        assert watched.complaints == []
