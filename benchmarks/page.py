"""The page with a large task: how soon it is there, how quick it is, how much memory its process takes in chromium.

A real server with a real store: 1,000 hosts with 100 nodes each, a tenth of them ended badly. Every load is a cold one,
in a profile of its own. Memory is what the page's own process has to itself (PSS), the browser's other ones aside.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.report import machine, say, spread, table
from kubexm.connector import Host
from kubexm.events import Event, EventKind
from kubexm.plan import ExecutionGraph
from kubexm.redact import Secret
from kubexm.service.places import Places
from kubexm.service.registry import Registry
from kubexm.step import CommandRun
from kubexm.store.store import Store
from kubexm.store.tasks import Task, TaskState
from kubexm.task import FragmentBuilder, NodeHandle

HOSTS, NODES, MODULES = 1000, 100, 10
LOADS = 5
AIM_SECONDS, AIM_MB = 2.0, 300.0
TASK = "20261116-000000-beef"
SPEC = """\
metadata: {name: large}
spec:
  global: {user: root, password: "secret:login"}
  hosts: [{name: h0001, address: 10.0.0.1}]
  roleGroups: {etcd: [h0001], controlPlane: [h0001], worker: [h0001]}
"""
APPLY = """async (id) => {
    const { TaskModel } = await import("/js/model.js");
    const { get } = await import("/js/api.js");
    const model = new TaskModel(id);
    model.task = await get(model.path);
    model.follow = () => {};
    await model.load();
    const events = [];
    for (const node of model.graph.nodes) for (const host of model.graph.hosts) {
        const tell = (kind, data) => events.push({ kind, data: { node: node.id, host, time: 2, seq: 1, kind, data } });
        tell("unit.running", {});
        tell("unit.done", { state: "succeeded", started: 1 });
    }
    const begun = performance.now();
    for (let at = 0; at < events.length; at += 500) model.apply(events.slice(at, at + 500));
    model.close();
    return events.length / ((performance.now() - begun) / 1000);
}"""


def graph_of(hosts: int, nodes: int) -> ExecutionGraph:
    """Modules in a row; within each, one node after the other, host by host."""
    everywhere = [Host(name=f"h{number:04}", address="10.0.0.1") for number in range(1, hosts + 1)]
    whole, before = None, list[NodeHandle]()
    for module in range(MODULES):
        g, before = FragmentBuilder(f"module{module:02}.do"), []
        for number in range(nodes // MODULES):
            before = [g.add(f"step{number:02}", CommandRun(command="true"), on=everywhere, after_same_host=before)]
        whole = g.build() if whole is None else whole + g.build()
    assert whole is not None
    return ExecutionGraph.build("create", whole)


def events_of(graph: ExecutionGraph) -> Iterator[Event]:
    """What the run of this graph left: mostly good."""
    seq, now = 1, 1_000.0
    yield Event(1, now, EventKind.RUN_STARTED, data={"units": graph.units, "graph": graph.digest})
    for place, node in enumerate(graph.nodes.values()):
        for number, host in enumerate(node.hosts):
            seq, now = seq + 1, now + 0.01
            chance = (place * 31 + number * 17) % 100
            state = "failed" if chance == 0 and place % 10 == 5 else "blocked" if chance < 10 else "succeeded"
            data: dict[str, Any] = {"state": state, "started": now - 1.5, "busy": 1.0}
            if state == "failed":
                data["error"] = {"kind": "CommandError", "message": "exited with 1: no space left", "exit_code": 1}
            yield Event(seq, now, EventKind.UNIT_DONE, node.id, host, data)
    yield Event(seq + 1, now, EventKind.RUN_ENDED, data={"status": "failed"})


async def fill(places: Places, hosts: int, nodes: int) -> str:
    """A database with the task in it; returns a token."""
    store = await Store.open(places.database, places.key)
    try:
        registry = Registry(store, places)
        await registry.register(SPEC, by="bench", secrets={"login": Secret("x")})
        await registry.close()
        graph = graph_of(hosts, nodes)
        await store.runs.put_graph(graph.digest, graph.to_json().encode())
        about = Task(id=TASK, cluster="large", action="create", pipeline="create", state=TaskState.FAILED, changes=True)
        await store.tasks.add(about, alone=False)
        await store.tasks.change(TASK, started=1_000.0, ended=2_000.0, kept=True)
        number = (await store.tasks.get(TASK)).n
        tally, batch = await store.runs.tally(number), list[Event]()
        for event in events_of(graph):
            batch.append(event)
            if len(batch) == 5000:
                await store.runs.take(number, batch, tally)
                batch = []
        await store.runs.take(number, batch, tally)
        return (await store.tokens.create("bench", {"*": "admin"}, by="bench"))[1].reveal()
    finally:
        await store.close()


@contextlib.contextmanager
def serving(places: Places, log: Path) -> Iterator[str]:
    """`kubexm serve`, as a process of its own."""
    words = [sys.executable, "-m", "kubexm", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(places.data)]
    with (
        log.open("wb") as file,
        subprocess.Popen([*words, "--keep-days", "99999"], stdout=file, stderr=file) as process,
    ):
        try:
            while (shown := re.search(r"serves at (\S+)", log.read_text())) is None:
                if process.poll() is not None:
                    raise SystemExit(f"error: it does not serve\n{log.read_text()}")
                time.sleep(0.05)
            yield shown[1]
        finally:
            process.terminate()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's, without a window."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("error: there is no chromium here\n  → apt-get install chromium")
    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        yield browser
        browser.close()


def megabytes(browser: Browser) -> float:
    """What the page's process has to itself: the largest of those that draw pages."""
    found = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    sizes = []
    for each in found["processInfo"]:
        if each["type"] == "renderer":
            text = Path(f"/proc/{each['id']}/smaps_rollup").read_text()
            sizes.append(int(re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE)[1]) / 1024)  # type: ignore[index]
    return max(sizes)


def loaded(browser: Browser, url: str, token: str, tab: str) -> tuple[Page, float]:
    """The page, and seconds from asking for it to everything being painted."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    assert context.request.post(f"{url}/api/v1/session", data={"token": token}).ok
    page = context.new_page()
    page.goto(f"{url}/#/tasks/{TASK}?tab={tab}", wait_until="commit")
    painted = {"matrix": ".matrix .chip", "graph": ".graph .box", "timeline": ".chain li", "steps": ".steps summary"}
    script = """async (sought) => {
        while (!document.querySelector(sought)) await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        return performance.now() / 1000;
    }"""
    return page, float(page.evaluate(script, painted[tab]))


def scrolled(page: Page) -> float:
    """Milliseconds a frame takes, the longest of a hundred, while the matrix is scrolled from end to end."""
    script = """async () => {
        const view = document.querySelector(".matrix-view");
        document.querySelector('.matrix [aria-label="Larger cells"]').click();
        for (let n = 0; n < 4; n++) document.querySelector('.matrix [aria-label="Larger cells"]').click();
        const times = [];
        for (let n = 0; n < 100; n++) {
            view.scrollLeft = (view.scrollWidth - view.clientWidth) * n / 100;
            view.scrollTop = (view.scrollHeight - view.clientHeight) * n / 100;
            const begun = performance.now();
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            times.push((performance.now() - begun) / 2);
        }
        return times.sort((one, other) => one - other)[95];
    }"""
    return float(page.evaluate(script))


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--loads", type=int, default=LOADS)
    options = parser.parse_args()
    print(machine() + "\n")
    with tempfile.TemporaryDirectory() as name:
        places = Places(Path(name) / "data")
        places.prepare()
        say(f"a task of {options.hosts} hosts with {options.nodes} nodes each goes into the store")
        token = asyncio.run(fill(places, options.hosts, options.nodes))
        with serving(places, Path(name) / "log") as url, chromium() as browser:
            rows = measured(browser, url, token, options.loads)
    print(table(("", "measured", "aim"), rows))


def measured(browser: Browser, url: str, token: str, loads: int) -> list[tuple[str, str, str]]:
    """All figures, as rows."""
    rows = []
    for tab in ("matrix", "graph", "steps", "timeline"):
        times = []
        for _ in range(loads):
            page, seconds = loaded(browser, url, token, tab)
            times.append(seconds)
            page.context.close()
        say(f"{tab}: {statistics.median(times):.2f} s")
        aim = f"< {AIM_SECONDS:g} s{'' if statistics.median(times) < AIM_SECONDS else ', **missed**'}"
        rows.append((f"load to the {tab}", f"{spread(times)} s", aim if tab != "timeline" else ""))
    page, _ = loaded(browser, url, token, "matrix")
    sizes = [megabytes(browser)]
    frame = scrolled(page)
    for tab in ("Graph", "Timeline", "Steps", "Logs", "Matrix"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(1500)
        sizes.append(megabytes(browser))
    rate = page.evaluate(APPLY, TASK)
    sizes.append(megabytes(browser))
    most = max(sizes)
    rows.append(("memory after loading", f"{sizes[0]:.0f} MB", ""))
    rows.append(
        ("memory at most, over all tabs", f"{most:.0f} MB", f"< {AIM_MB:g} MB{'' if most < AIM_MB else ', **missed**'}")
    )
    rows.append(("a frame while the matrix scrolls (95 of 100)", f"{frame:.0f} ms", ""))
    rows.append(("events taken in a second", f"{rate:,.0f}", ""))
    return rows


if __name__ == "__main__":
    main()
