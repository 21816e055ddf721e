"""A person with a browser: from a token to a cluster that is watched, fails, is resumed and goes away again."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.integration.web.conftest import OpenPage, Site

FIRST = '[data-node="service.run.first"]'


def write(page: Page, text: str) -> None:
    page.get_by_label("cluster.yaml").fill(text)


def state(page: Page, words: str) -> None:
    """The state a task says it is in."""
    expect(page.locator(".figures .badge")).to_contain_text(words)


def test_log_in_register_plan_create_watch_fail_resume_delete(site: Site, open_page: OpenPage) -> None:
    site.clean()
    watched = open_page(login=False)
    watched.expected += ["401"]
    page = watched.page

    # Log in
    page.get_by_label("Token").fill("kx_nonsense")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("this token is not valid")
    watched.shot("01-login")
    page.get_by_label("Token").fill(site.token)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Clusters")).to_be_visible()
    assert site.token not in page.evaluate("document.cookie + JSON.stringify(localStorage)")

    # Register: problems are marked at their lines
    page.get_by_role("link", name="New cluster").first.click()
    spec = site.spec("journey", note="first")
    wrong = spec.replace("user: root", "usr: root")
    write(page, wrong)
    line = wrong.splitlines().index("    usr: root") + 1
    expect(page.locator(".gutter .error")).to_have_text(str(line))
    problem = page.locator(".problems li.error")
    expect(problem).to_contain_text("spec.global.usr")
    expect(problem).to_contain_text("did you mean user")
    expect(page.get_by_role("button", name="Register")).to_be_disabled()
    watched.shot("02-spec-with-a-problem")
    problem.get_by_role("button").click()
    assert page.evaluate("document.activeElement.id") == "spec"
    write(page, spec)
    expect(page.get_by_role("status").filter(has_text="journey is valid")).to_be_visible()
    page.get_by_label("Secret key").fill(site.key.rstrip("\n"))
    page.get_by_role("button", name="Register").click()
    expect(page.get_by_role("heading", name="journey")).to_be_visible()
    expect(page.locator(".head .badge")).to_contain_text("registered")

    # Plan, and look at it before anything is done
    page.get_by_role("button", name="Plan and create").click()
    expect(page.get_by_role("heading", name="Plan: create")).to_be_visible()
    expect(page.locator(".node.box")).to_have_count(5)
    page.locator(FIRST).click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("starting the service")
    watched.shot("03-plan")
    assert site.on("n1", "test -e /run/try/settings") != 0, "a plan changes nothing"

    # Carry it out, and watch
    page.get_by_role("button", name="Carry it out").click()
    page.get_by_role("dialog").get_by_role("button", name="Carry it out").click()
    site.wait_on("n1", "test -e /run/try/waiting")
    expect(page.locator(FIRST)).to_have_attribute("data-state", "running")
    expect(page.locator('[data-node="files.host.program"]')).to_have_attribute("data-state", "succeeded")
    expect(page.locator('[data-node="service.run.rest"]')).to_have_attribute("data-state", "pending")
    state(page, "running")
    page.locator(FIRST).click()
    log = page.get_by_label("Output")
    expect(log).to_contain_text("starting the service")
    watched.shot("04-running")
    site.on("n1", "touch /run/try/broken /run/try/go")

    # It fails: the root cause, what it blocks, and what it said; nothing a host says is taken for markup
    state(page, "failed")
    expect(page.locator(FIRST)).to_have_class(re.compile(r"\broot\b"))
    expect(page.locator('[data-node="service.run.rest"]')).to_have_attribute("data-state", "blocked")
    failure = page.get_by_role("region", name="What failed")
    expect(failure).to_contain_text("service.run.first")
    expect(failure).to_contain_text("exit code 9")
    expect(failure).to_contain_text("blocks 6 others")
    expect(log).to_contain_text("fatal: the disk is full <b>of cats</b>")
    assert page.locator("b", has_text="of cats").count() == 0
    watched.shot("05-failed")

    # Resume
    site.on("n1", "rm /run/try/broken")
    page.get_by_role("button", name="Resume").click()
    state(page, "succeeded")
    expect(failure).to_be_hidden()
    for box in page.locator(".node.box").all():
        expect(box).to_have_attribute("data-state", re.compile("succeeded|satisfied"))
    expect(log).to_contain_text("line 5 of the service")
    watched.shot("06-green")

    # Every way to look at it
    page.keyboard.press("Escape")
    page.keyboard.press("2")
    expect(page.get_by_role("tab", name="Matrix")).to_have_attribute("aria-selected", "true")
    page.get_by_role("application").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("service.run.first")
    watched.shot("07-matrix")
    page.get_by_role("tab", name="Timeline").click()
    expect(page.locator(".chain li").first).to_be_visible()
    expect(page.locator(".chain")).to_contain_text("service.run.first")
    watched.shot("08-timeline")
    page.get_by_role("tab", name="Steps").click()
    page.get_by_text("service", exact=True).click()
    expect(page.get_by_role("button", name="service.run.rest: succeeded")).to_be_visible()
    page.get_by_role("tab", name="Logs").click()
    page.get_by_label("Text to look for").fill("PART 17")
    expect(page.locator(".found .hit")).to_have_count(3)
    expect(page.locator(".found mark").first).to_have_text("part 17")

    # The same plan again differs only where the spec does
    page.get_by_role("link", name="journey").first.click()
    expect(page.locator(".head .badge")).to_contain_text("up")
    page.get_by_role("link", name="Edit spec").click()
    write(page, site.spec("journey", note="second"))
    expect(page.get_by_text("What this edit comes to")).to_be_visible()
    page.get_by_label("Note").fill("another note")
    page.get_by_role("button", name="Keep this version").click()
    expect(page.get_by_text("version 2")).to_be_visible()
    page.get_by_role("button", name="Plan changes").click()
    expect(page.get_by_role("heading", name="Plan: create")).to_be_visible()
    page.get_by_role("tab", name="Changes since the last plan").click()
    diff = page.locator(".diff")
    expect(diff.locator(".minus")).to_contain_text(["note: first"])
    expect(diff.locator(".plus")).to_contain_text(["note: second"])
    watched.shot("09-plan-diff")
    page.get_by_role("button", name="Dry run").click()
    state(page, "succeeded")
    page.locator('[data-node="files.host.settings"]').click()
    expect(page.locator(".pane .diff .plus")).to_contain_text(["note: second"])
    assert site.on("n1", "grep -q first /run/try/settings") == 0, "a dry run changes nothing"

    # Delete, which wants the name, and forget
    page.get_by_role("link", name="journey").first.click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_label("Name of the cluster").fill("journey")
    page.get_by_role("dialog").get_by_role("button", name="Delete the cluster").click()
    state(page, "succeeded")
    assert site.on("n3", "test -e /run/try/unpacked") != 0
    page.get_by_role("link", name="journey").first.click()
    expect(page.locator(".head .badge")).to_contain_text("registered")
    page.get_by_role("button", name="Forget").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("heading", name="Clusters")).to_be_visible()
    expect(page.get_by_role("link", name="journey")).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Token")).to_be_visible()


def test_a_host_that_is_cut_off_is_the_root_cause_and_finished_by_resume(site: Site, open_page: OpenPage) -> None:
    site.clean()
    site.register("cut")
    task = site.client().post("/clusters/cut/create", json={}).json()["id"]
    watched = open_page(f"#/tasks/{task}")
    page = watched.page
    site.wait_on("n1", "test -e /run/try/waiting")
    expect(page.locator(FIRST)).to_have_attribute("data-state", "running")
    server = site.servers["n3"]
    server.stop()
    try:
        site.on("n1", "touch /run/try/go")
        state(page, "failed")
        failure = page.get_by_role("region", name="What failed")
        expect(failure).to_contain_text("n3")
        expect(page.locator('[data-node="service.run.rest"]')).to_have_class(re.compile(r"\broot\b"))
        watched.shot("10-cut-off")
    finally:
        server.start()
    page.get_by_role("button", name="Resume").click()
    state(page, "succeeded")
    expect(failure).to_be_hidden()


def test_cancelling_asks_first_and_says_what_it_waits_for(site: Site, open_page: OpenPage) -> None:
    site.clean()
    site.register("cancel")
    task = site.client().post("/clusters/cancel/create", json={}).json()["id"]
    page = open_page(f"#/tasks/{task}").page
    site.wait_on("n1", "test -e /run/try/waiting")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the task").click()
    state(page, "stopping after what it is at")
    page.get_by_role("button", name="Stop now").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop now").click()
    expect(page.locator(".figures .badge")).to_contain_text(re.compile("cancelled|interrupted"))
    site.on("n1", "touch /run/try/go")
    page.get_by_role("button", name="Resume").click()
    state(page, "succeeded")
