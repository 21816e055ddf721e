"""The page's files over HTTP: from this package alone, asked for again each time and sent only if they changed."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

__all__ = ["page"]

STATIC = Path(__file__).parent / "static"


class _Files(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"  # a new version of kubexm is a new page
        return response


def page() -> StaticFiles:
    """Answers for everything outside /api."""
    return _Files(directory=STATIC, html=True)
