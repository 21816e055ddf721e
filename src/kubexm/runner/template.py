"""Templates: text with values put in, strictly. Must not know where the text goes.

A name that is not given is an error, never an empty string: a config file with a hole in it is worse than none.
"""

from __future__ import annotations

import json
import shlex
from functools import cache
from typing import TYPE_CHECKING, Any

from kubexm.errors import KubexmError

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render"]


def render(template: str, /, *, template_name: str = "template", **values: Any) -> str:
    """The text with the values put in; `json` (good YAML too) and `quote` (for a shell) are filters."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        return _environment().from_string(template).render(values)
    except TemplateSyntaxError as error:
        raise KubexmError(
            f"{template_name}, line {error.lineno}: {error.message}", hint="This is a mistake in the template itself."
        ) from error
    except TemplateError as error:
        line = _line_of(error)
        place = f"{template_name}, line {line}" if line else template_name
        raise KubexmError(f"{place}: {error.message}", hint="The template needs a value that was not given.") from error


@cache
def _environment() -> Environment:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701 - config files, not web pages
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.filters["quote"] = lambda value: shlex.quote(str(value))
    return environment


def _line_of(error: BaseException) -> int:
    """The template's own line: Jinja rewrites the traceback so that its last template frame has it."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
