"""The page about REST says who may do what; the tests of access prove the same."""

from __future__ import annotations

import re
from pathlib import Path

from tests.integration.rest.test_access import ADMINISTER, ANY, OPEN, OPERATE, ROUTES, VIEW

PAGE = (Path(__file__).parents[3] / "docs" / "rest.md").read_text("utf-8")
WORDS = {
    OPEN: "anybody, with no token",
    ANY: "anybody with a token",
    VIEW: "viewer",
    OPERATE: "operator",
    ADMINISTER: "admin",
}


def test_who_may_do_what_is_what_is_tested() -> None:
    written = dict(re.findall(r"^\| `([A-Z]+ [^`]+)` \| [^|]+ \| ([^|]+?) \|", PAGE, re.MULTILINE))
    tested = {route: WORDS[need] for route, need in ROUTES.items()}
    tested["GET /metrics"] = "viewer of all clusters"
    assert written == tested
