"""The page itself: what it is served with, how it reads in both themes and on a phone, by keyboard; its geometry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from kubexm.web.site import STATIC
from tests.integration.web.conftest import OpenPage, Site

FILES = sorted(path for path in STATIC.rglob("*") if path.is_file())
VIEWS = ("#/", "#/tasks", "#/new", "#/clusters/show", "#/clusters/show/spec")
TABS = ("graph", "matrix", "timeline", "steps", "logs")


@pytest.fixture(scope="module")
def done(site: Site) -> str:
    """A task that went well."""
    site.clean()
    site.on("n1", "touch /run/try/go")
    site.register("show")
    task: str = site.client().post("/clusters/show/create", json={}).json()["id"]
    assert site.ended(task)["state"] == "succeeded"
    return task


class TestFiles:
    @pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(STATIC)))
    def test_nothing_is_inline_and_nothing_comes_from_elsewhere(self, path: Path) -> None:
        text = path.read_text()
        assert not re.search(r"\b(innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval|new Function)\b", text)
        urls = re.findall(r"https?://[^\s\"'`)]+", text)
        assert all(url == "http://www.w3.org/2000/svg" for url in urls), urls
        if path.suffix == ".html":
            assert not re.search(r"\son\w+=|\sstyle=|<style|<script(?![^>]*\ssrc=)", text)
        if path.suffix in (".js", ".css"):
            assert len(text.splitlines()) <= 350

    def test_every_module_is_asked_for_at_once(self) -> None:
        named = set(re.findall(r'(?:src|href)="/(js/[^"]+)"', (STATIC / "index.html").read_text()))
        assert named == {str(path.relative_to(STATIC)) for path in FILES if path.suffix == ".js"}

    def test_they_are_served_with_a_strict_policy_and_asked_for_again(self, site: Site) -> None:
        client = site.client()
        answer = client.get(f"{site.url}/", headers={"Authorization": ""})
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        script = client.get(f"{site.url}/js/main.js")
        assert script.headers["content-type"].startswith(("text/javascript", "application/javascript"))
        assert script.headers["cache-control"] == "no-cache"
        same = client.get(f"{site.url}/js/main.js", headers={"If-None-Match": script.headers["etag"]})
        assert same.status_code == 304
        for outside in ("/js/../../site.py", "/..%2fsite.py", "/nothing.js"):
            assert client.get(f"{site.url}{outside}").status_code == 404


def _luminance(colour: tuple[float, ...]) -> float:
    parts = [each / 255 / 12.92 if each / 255 <= 0.03928 else ((each / 255 + 0.055) / 1.055) ** 2.4 for each in colour]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(open_page: OpenPage, scheme: str) -> None:
    page = open_page(color_scheme=scheme).page

    def colour(name: str) -> tuple[float, ...]:
        found = page.evaluate("async (name) => (await import('/js/dom.js')).colour(name)", f"--{name}")
        return tuple(float(each) for each in re.findall(r"[\d.]+", found)[:3])

    for front, back in [
        ("ink", "page"),
        ("ink", "panel"),
        ("dim", "page"),
        ("dim", "panel"),
        ("accent", "panel"),
        ("danger", "danger-soft"),
        ("ink", "danger-soft"),
        ("warn", "warn-soft"),
        ("good", "panel"),
        ("on-accent", "accent-fill"),
    ]:
        one, other = sorted((_luminance(colour(front)), _luminance(colour(back))), reverse=True)
        assert (one + 0.05) / (other + 0.05) >= 4.5, f"{front} on {back} ({scheme})"


@pytest.mark.parametrize("shape", ["desktop", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_in_both_themes_and_on_a_phone(open_page: OpenPage, done: str, scheme: str, shape: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
    watched = open_page("#/", color_scheme=scheme, **(phone if shape == "phone" else {}))
    page = watched.page
    for path in (*VIEWS, *(f"#/tasks/{done}?tab={tab}" for tab in TABS)):
        page.goto(f"{watched.url}/{path}")
        page.reload()
        page.locator("#main > *").first.wait_for()
        page.wait_for_load_state("networkidle") if "tasks/" not in path else page.wait_for_timeout(400)
        name = re.sub(r"\W+", "-", path.replace(done, "task")).strip("-") or "clusters"
        watched.shot(f"view-{name}-{scheme}-{shape}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the window"
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("button, a, input, select, textarea")]
                .filter((each) => each.offsetParent && !(each.ariaLabel || each.getAttribute("aria-label")
                    || each.labels?.length || each.textContent.trim() || each.title)).map((each) => each.outerHTML)"""
        )
        assert nameless == [], path


def test_the_keyboard_is_enough(open_page: OpenPage, done: str) -> None:
    page = open_page(f"#/tasks/{done}").page
    page.locator(".node.box").first.wait_for()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    page.locator('[data-node="service.run.first"]').focus()
    page.keyboard.press("Enter")
    page.get_by_role("complementary", name="Details").get_by_text("service.run.first").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("complementary", name="Details").wait_for(state="hidden")
    page.keyboard.press("e")
    expect(page.locator(".node.box")).to_have_count(0)
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Tasks").wait_for()
    page.keyboard.press("c")
    page.get_by_role("heading", name="Clusters").wait_for()


def test_a_token_that_is_revoked_ends_what_the_page_may(site: Site, open_page: OpenPage, done: str) -> None:
    client = site.client()
    made = client.post("/tokens", json={"name": "guest", "grants": {"*": "viewer"}}).json()
    watched = open_page(f"#/clusters/show?for={done}", login=False)
    watched.expected += ["401"]
    page = watched.page
    page.get_by_label("Token").fill(made["token"])
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="show").wait_for()
    assert page.get_by_role("button", name="Delete").count() == 0, "a viewer only looks"
    client.delete(f"/tokens/{made['id']}")
    expect(page.get_by_label("Token")).to_be_visible()
    expect(page.locator("#notices")).to_contain_text("session has ended")


def test_a_theme_that_was_chosen_stays(open_page: OpenPage) -> None:
    page = open_page(color_scheme="light").page
    button = page.get_by_role("button", name=re.compile("Theme"))
    button.click()
    button.click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    button.wait_for()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_boxes_of_a_graph_never_touch(open_page: OpenPage) -> None:
    page = open_page().page
    found = page.evaluate(Path(__file__).with_name("layout_check.js").read_text())
    assert found == []
