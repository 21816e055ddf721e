"""What a person reads off the page: causes, names, colours, what is waited for; in a large window and on a phone."""

from __future__ import annotations

import math
import re
import socket

import pytest
from playwright.sync_api import Route, expect

from tests.integration.web.conftest import OpenPage, Site

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
MANY = """async () => {
    const { Matrix } = await import("/js/parts/matrix.js");
    const { CODE, UNIT } = await import("/js/states.js");
    const hosts = Array.from({ length: 1000 }, (_, at) => `h${at}`);
    const module = (at) => `module${at % 6}`;
    const nodes = Array.from({ length: 60 }, (_, at) => (
        { at, id: `${module(at)}.do.step${at}`, module: module(at), does: "" }));
    const cells = new Uint8Array(hosts.length * nodes.length).fill(CODE.succeeded);
    const totals = new Uint32Array(UNIT.length);
    totals[CODE.succeeded] = cells.length;
    const modules = [...new Set(nodes.map((node) => node.module))];
    const graph = { nodes, hosts, modules };
    const model = { graph, cells, totals, failures: [], lost: new Map(), at: () => "succeeded" };
    const said = [], real = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (words, ...rest) {
        said.push(words);
        return real.call(this, words, ...rest);
    };
    const matrix = new Matrix(model, { open() {} });
    const place = document.createElement("div");
    place.className = "tab-place";
    place.style.height = "700px";
    document.getElementById("main").replaceChildren(place);
    place.append(matrix.element);
    matrix.ready();
    matrix.update();
    await new Promise((resolve) => setTimeout(resolve, 300));
    CanvasRenderingContext2D.prototype.fillText = real;
    const { space, view } = matrix;
    return {
        said, high: space.offsetHeight, window: view.clientHeight, wide: space.offsetWidth, room: view.clientWidth,
    };
}"""
SPY = """() => {
    window.painted = [];
    const real = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (words, ...rest) {
        window.painted.push(words);
        return real.call(this, words, ...rest);
    };
}"""


@pytest.fixture(scope="module")
def failed(site: Site) -> str:
    """A task in which the same step failed on two hosts, in the same words."""
    site.clean()
    for host in ("n1", "n2"):
        site.on(host, "touch /run/try/full")
    site.register("full")
    task: str = site.client().post("/clusters/full/create", json={}).json()["id"]
    assert site.ended(task)["state"] == "failed"
    return task


def test_what_failed_on_many_hosts_for_one_reason_is_one_cause(open_page: OpenPage, failed: str) -> None:
    watched = open_page(f"#/tasks/{failed}?tab=graph")
    page = watched.page
    causes = page.get_by_role("region", name="What failed").locator(".failure")
    expect(causes).to_have_count(1)
    expect(causes).to_contain_text("files.host.program")
    expect(causes).to_contain_text("2 hosts")
    expect(causes).to_contain_text("exit code 7")
    box = page.locator('[data-node="files.host.program"]')
    expect(box.locator(".sign")).to_have_text("✕")
    expect(box.locator(".more")).to_contain_text("root cause")
    watched.shot("reading-causes")
    causes.get_by_role("button", name="n2", exact=True).click()
    pane = page.get_by_role("complementary", name="Details")
    expect(pane.get_by_label("Host")).to_have_value("n2")
    expect(pane.get_by_label("Output")).to_contain_text("no space left")
    assert "[1;31m" not in (pane.get_by_label("Output").text_content() or "")
    expect(pane.locator(".log .ansi-1.ansi-bold")).to_have_text("no space")
    watched.shot("reading-output")


def test_previews_of_logs_show_standard_error_in_its_colours(open_page: OpenPage, failed: str) -> None:
    watched = open_page(f"#/tasks/{failed}?tab=logs")
    hit = watched.page.locator("button.hit", has_text="exited with 7").first
    expect(hit.locator("pre .stderr")).to_have_text("no space left")
    expect(hit.locator("pre .stderr .ansi-1")).to_have_text("no space")
    expect(hit.locator("pre .error")).to_be_visible()
    assert "[1;31m" not in (hit.text_content() or "")
    watched.shot("reading-logs")
    watched.page.get_by_label("Text to look for").fill("no space left")
    expect(hit.locator("pre")).to_contain_text("no space left")


def test_on_a_phone_resume_is_in_sight_wherever_one_is(open_page: OpenPage, failed: str) -> None:
    watched = open_page(f"#/tasks/{failed}", **PHONE)
    button = watched.page.get_by_role("button", name="Resume")
    expect(button).to_be_in_viewport(ratio=1)
    watched.shot("reading-phone")
    watched.page.mouse.wheel(0, 2000)
    watched.page.wait_for_timeout(300)
    watched.shot("reading-phone-below")
    expect(button).to_be_in_viewport(ratio=1)


def test_a_thousand_hosts_open_with_named_rows_that_fill_the_window(open_page: OpenPage) -> None:
    watched = open_page()
    watched.page.get_by_role("heading", name="Clusters").wait_for()
    found = watched.page.evaluate(MANY)
    watched.shot("reading-thousand")
    assert sum("do.step" in words for words in found["said"]) >= 20, "rows have names"
    assert found["high"] >= found["window"] - 1
    assert found["wide"] <= found["room"], "all hosts are in sight"


def test_while_a_page_loads_it_says_so_and_the_old_one_is_gone(site: Site, open_page: OpenPage, failed: str) -> None:
    watched = open_page()
    page = watched.page
    heading = page.get_by_role("heading", name="Clusters")
    heading.wait_for()
    held: list[Route] = []
    page.route("**/api/v1/clusters/full*", lambda route: held.append(route))
    page.evaluate("location.hash = '#/clusters/full'")
    expect(page.get_by_role("status").filter(has_text="Loading")).to_be_visible()
    expect(heading).to_be_hidden()
    watched.shot("reading-loading")
    assert held
    page.unroute("**/api/v1/clusters/full*")  # lets them go
    expect(page.get_by_role("heading", name="full")).to_be_visible()
    expect(page.get_by_text("Loading …")).to_have_count(0)


def test_a_new_cluster_cannot_take_a_name_that_is_taken(site: Site, open_page: OpenPage, failed: str) -> None:
    page = open_page("#/new").page
    page.get_by_label("cluster.yaml").fill(site.spec("full"))
    problem = page.locator(".problems li.error")
    expect(problem).to_contain_text("there is a cluster full already")
    expect(page.locator(".gutter .error")).to_have_count(1)
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    page.get_by_label("cluster.yaml").fill(site.spec("fuller"))
    expect(page.get_by_role("status").filter(has_text="fuller is valid")).to_be_visible()
    expect(page.get_by_role("button", name="Register")).to_be_enabled()


def test_links_are_underlined_and_not_only_coloured(open_page: OpenPage, failed: str) -> None:
    page = open_page(f"#/tasks/{failed}").page
    for link in (page.locator(".crumbs a"), page.locator(".failure button.link").first):
        link.wait_for()
        assert link.evaluate("(each) => getComputedStyle(each).textDecorationLine") == "underline"


def in_words(seconds: float) -> str:
    """As the page shows a duration of less than ten seconds."""
    return f"{math.floor(seconds * 1000 + 0.5)} ms" if seconds < 0.095 else f"{seconds:.1f} s"


def test_the_timeline_names_and_lists_the_critical_path(site: Site, open_page: OpenPage, failed: str) -> None:
    found = site.client().get(f"/tasks/{failed}/timeline").json()
    critical = {span["node"] for span in found["spans"] if span["critical"]}
    watched = open_page(f"#/tasks/{failed}?tab=steps")
    page = watched.page
    page.get_by_role("tab", name="Timeline").wait_for()
    page.evaluate(SPY)
    page.get_by_role("tab", name="Timeline").click()
    items = page.locator(".chain li")
    expect(items.first).to_be_visible()
    assert {re.split(r"\s", each.inner_text())[0] for each in items.all()} == critical
    starts = sorted(span["started"] - found["started"] for span in found["spans"] if span["critical"])
    shown = [re.search(r"at ([\d.]+ m?s)\b", each.inner_text()) for each in items.all()]
    assert [each and each[1] for each in shown] == [in_words(start) for start in starts]
    painted = set(page.evaluate("window.painted"))
    for node in critical:
        own = node.partition(".")[2]
        assert any(words == node or own.startswith(words.rstrip("…")) for words in painted if len(words) > 4), node
    watched.shot("reading-timeline")


def test_planning_shows_which_hosts_are_waited_for(site: Site, open_page: OpenPage) -> None:
    site.clean()
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes a connection, and never says anything
        late = f"    - {{name: late, address: 127.0.0.1, port: {silent.getsockname()[1]}}}\n"
        text = site.spec("slow").replace("  roleGroups:\n", f"{late}  roleGroups:\n", 1)
        client = site.client()
        made = client.post("/clusters", json={"spec": text, "secrets": {"key": site.key}})
        assert made.status_code == 201, made.text
        task = client.post("/clusters/slow/create", json={}).json()["id"]
        watched = open_page(f"#/tasks/{task}")
        planning = watched.page.locator(".planning")
        expect(planning).to_contain_text("3 of 4 hosts connected")
        expect(planning).to_contain_text("Waiting for late")
        watched.shot("reading-planning")
        for _ in range(2):
            client.post(f"/tasks/{task}/cancel")
        expect(planning).to_be_hidden()
    site.ended(task)
