"""Debian's chromium, driven by Playwright: nothing is downloaded. Where there is none, tests are skipped and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

__all__ = ["Watched", "chromium", "why_no_chromium"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 60.0
expect.set_options(timeout=_SECONDS * 1000)
ARTIFACTS = Path(__file__).parents[1] / "artifacts" / "page"


def why_no_chromium() -> str:
    """Why there is no browser here; empty if there is one."""
    if any(shutil.which(name) for name in _NAMES):
        return ""
    return "not installed: chromium (Debian: apt-get install chromium)"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path = next(found for name in _NAMES if (found := shutil.which(name)))
    flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=flags)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of which every complaint is kept: errors, refusals of the content policy, requests to elsewhere."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.complaints: list[str] = []
        self.expected = ["net::ERR_NETWORK_CHANGED"]  # the machine got or lost an interface: a lab's, for example
        page.set_default_timeout(_SECONDS * 1000)
        page.on("console", lambda message: self._note(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self._note(str(error)))
        page.on("request", lambda request: self._elsewhere(request.url))

    def _note(self, words: str) -> None:
        if not any(each in words for each in self.expected):
            self.complaints.append(words)

    def _elsewhere(self, url: str) -> None:
        if not url.startswith((f"{self.url}/", "data:", "blob:")):
            self.complaints.append(f"asked {url}")

    def shot(self, name: str) -> None:
        """Keeps a picture among the test's artefacts."""
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=ARTIFACTS / f"{name}.png")
