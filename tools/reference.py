"""Writes what is generated: docs/cluster-yaml.md from the model, docs/commands.md from the command line, examples/ from
the files that `kubexm config init` prints.

Usage: python tools/reference.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kubexm.apis.v1alpha1 import json_schema
from kubexm.apis.v1alpha1.base import EDIT_KEY, OUTSIDE_KEY, TYPE_KEY
from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES
from kubexm.cli.main import VERBS, root_command
from kubexm.config.starters import TOPOLOGIES, starter

ROOT = Path(__file__).resolve().parent.parent

INTRODUCTION = """\
# cluster.yaml

This page is generated from the model by `tools/reference.py`; do not edit it.

One file describes one cluster. `kubexm config init` prints one to start from, `kubexm config validate -f cluster.yaml`
shows everything that is wrong with yours at once, and `kubexm config schema` prints a JSON Schema for editors that
check YAML while you write. The smallest valid file:

```yaml
metadata: {name: demo}
spec:
  hosts: [{name: node1, address: 192.0.2.10}]
  roleGroups: {etcd: [node1], controlPlane: [node1], worker: [node1]}
```

Everything else has a default. A section, list or mapping with nothing under it has its defaults too.
[`examples/full.yaml`](../examples/full.yaml) shows every field in use.

## How values are written

| Type | How |
|---|---|
| duration | `10s`, `1h30m`, `500ms`, `8760h`, `365d` |
| size | `1700Mi`, `8Gi`; also `Ki`, `Ti`, `k`, `M`, `G`, `T` |
| count or percentage | `2` or `10%`; a share is rounded down, but to no less than one, unless that is all |
| CIDR | `10.244.0.0/16`; for dual stack `10.244.0.0/16,fd00:244::/56` |
| version | `{version}`; the `v` may be left out |
| secret | `env:NAME` (from your environment), `file:path`, `prompt` (asked for at the terminal), or the secret itself |
| name or range | `node1`, `cp[1:3]` (cp1, cp2, cp3), `w[01:20]` (zeros in front are kept) |
| address or range | `10.0.0.11`, `10.0.0.[11:13]`, `host.example.com`; as many as the name has |
| host, range or group | `node1`, `cp[1:3]`, `group:controlPlane` |
| arguments | a mapping of names, without dashes, to values; a list repeats the argument |
| taint | `key=value:Effect` or `key:Effect`; effects are `NoSchedule`, `PreferNoSchedule`, `NoExecute` |
| schedule | five cron fields: minute, hour, day of month, month, weekday |
| path | `~` is your home; relative paths start at the directory of cluster.yaml |

A secret that stands in the file itself is never shown by kubexm, but everyone who can read the file can read it:
`config validate` warns if others on the machine can. It also warns about a Kubernetes version that upstream no longer
supports.

## What an edit does once the cluster exists

| | |
|---|---|
| live | Edit the file and run `create` again: just that is changed, and just what must restart does. |
| upgrade | Refused, with the old and the new value: this version of kubexm cannot upgrade a cluster. |
| fixed | Refused, with the old and the new value. |

New hosts, and new roles of hosts, join. Hosts that are gone from the file are reported and never touched.
A field marked with † may also change between a run and its `resume`: connection settings, secrets and asset sources.
"""


COMMANDS = """\
# Command reference

This page is generated from the command line by `tools/reference.py`; do not edit it. It lists every command with its
arguments and options, as `kubexm COMMAND --help` prints them. [The command line](cli.md) explains what they have in
common: choosing hosts and steps, output formats, exit codes, stopping, shell completion.
"""


def main(arguments: list[str]) -> int:
    """Writes the pages, or with --check reports those that are out of date."""
    pages = {
        "docs/cluster-yaml.md": render(json_schema()),
        "docs/commands.md": render_commands(root_command()),
        **{f"examples/{topology}.yaml": starter(topology) for topology in TOPOLOGIES},
    }
    if arguments == ["--check"]:
        stale = [name for name, text in pages.items() if _written(name) != text]
        for name in stale:
            print(f"{name} is out of date: run `python tools/reference.py`", file=sys.stderr)
        return 1 if stale else 0
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for name, text in pages.items():
        (ROOT / name).write_text(text, encoding="utf-8")
    return 0


def _written(name: str) -> str:
    page = ROOT / name
    return page.read_text(encoding="utf-8") if page.exists() else ""


def render(schema: dict[str, Any]) -> str:
    """The whole page."""
    definitions: dict[str, dict[str, Any]] = schema["$defs"]
    parts = [INTRODUCTION.replace("{version}", str(DEFAULT_KUBERNETES))]
    for definition in (schema, *definitions.values()):
        for field in definition["properties"].values():
            name, _ = _reference(field)
            if name:
                field.setdefault("description", str(definitions[name]["description"]).partition("\n")[0])
    parts += [_section(path, definition) for path, definition in _sections("", schema, definitions)]
    return "\n".join(parts)


def _sections(
    path: str, definition: dict[str, Any], definitions: dict[str, dict[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """Every mapping of the file in the order of the model."""
    found = [(path, definition)]
    for key, field in definition["properties"].items():
        name, suffix = _reference(field)
        if name:
            inner = f"{path}.{key}{suffix}" if path else f"{key}{suffix}"
            found += _sections(inner, definitions[name], definitions)
    return found


def _reference(field: dict[str, Any]) -> tuple[str, str]:
    """The name of the model a field holds, and whether as a list or a mapping."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2], ""
    for choice in field.get("anyOf", ()):
        name, suffix = _reference(choice)
        if name:
            return name, suffix
    for key, suffix in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(field.get(key), dict):
            name, _ = _reference(field[key])
            if name:
                return name, suffix
    return "", ""


def _section(path: str, definition: dict[str, Any]) -> str:
    lines = [f"## {path or 'Top level'}", "", str(definition.get("description", "")), ""]
    lines += ["| Field | Type | Default | Edit | |", "|---|---|---|---|---|"]
    required = definition.get("required", [])
    for key, field in definition["properties"].items():
        default = "required" if key in required else _default(field)
        dagger = " †" if OUTSIDE_KEY in field else ""
        edit = str(field.get(EDIT_KEY, ""))
        cells = [f"`{key}`", _type(field, path, key), default, edit + dagger, str(field.get("description", ""))]
        lines.append("| " + " | ".join(cell.replace("|", "\\|").strip() for cell in cells) + " |")
    return "\n".join([*lines, ""])


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return ""
    value = field["default"]
    if isinstance(value, str):
        return f"`{value}`" if value else ""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`" if value != [] else ""


def _anchor(path: str) -> str:
    return "".join(char for char in path.lower() if char.isalnum() or char in "-_ ").replace(" ", "-")


def _type(field: dict[str, Any], path: str, key: str) -> str:
    name, suffix = _reference(field)
    if name:
        inner = f"{path}.{key}{suffix}" if path else f"{key}{suffix}"
        words = {"": "section", "[]": "list of sections", ".*": "mapping of sections"}
        return f"[{words[suffix]}](#{_anchor(inner)})"
    return _named(field)


def _named(field: dict[str, Any]) -> str:
    if TYPE_KEY in field:
        return str(field[TYPE_KEY])
    if "const" in field:
        return f"`{json.dumps(field['const'])}`".replace('"', "")
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if "anyOf" in field:
        return " or ".join(_named(choice) for choice in field["anyOf"] if choice.get("type") != "null")
    kinds = field.get("type", "any")
    kind = kinds[0] if isinstance(kinds, list) else kinds
    match kind:
        case "array":
            return f"list of {_named(field['items'])}"
        case "object" if isinstance(field.get("additionalProperties"), dict):
            return f"mapping to {_named(field['additionalProperties'])}"
        case "object":
            return "mapping"
        case "integer" if "maximum" in field:
            return f"{field['minimum']} to {field['maximum']}"
        case "integer":
            return "number"
        case "boolean":
            return "`true`, `false`"
        case "string":
            return "text"
        case _:
            return str(kind)


def render_commands(root: Any) -> str:
    """The page of all commands, section by section in the order of `kubexm --help`."""
    context = root.make_context("kubexm", [], resilient_parsing=True)
    parts = [COMMANDS, *_command(root, context, "## kubexm")]
    for section in dict.fromkeys(verb.section for verb in VERBS):
        parts += [f"## {section}", ""]
        for verb in VERBS:
            if verb.section == section:
                _, command, _ = root.resolve_command(context, [verb.name])
                parts += _tree(command, verb.name, context)
    return "\n".join(parts)


def _tree(command: Any, name: str, parent: Any) -> list[str]:
    """A command and those below it. A group that does nothing by itself is only a heading for its commands."""
    context = type(parent)(command, info_name=name, parent=parent, resilient_parsing=True)
    below = getattr(command, "commands", {})
    lines = [] if below and not command.invoke_without_command else _command(command, context)
    for child, inner in below.items():
        lines += _tree(inner, child, context)
    return lines


def _command(command: Any, context: Any, heading: str = "") -> list[str]:
    """What `--help` prints: usage, description, arguments and options."""
    usage = command.get_usage(context).partition(":")[2].split()
    lines = [heading or f"### {context.command_path}", "", f"    {' '.join(usage)}", ""]
    for paragraph in (command.help or "").split("\n\n"):
        lines += [" ".join(paragraph.split()), ""]
    shown = [(param, param.get_help_record(context)) for param in command.get_params(context)]
    for title, kind in (("Argument", "argument"), ("Option", "option")):
        rows = [record for param, record in shown if record and param.param_type_name == kind and param.name != "help"]
        if rows:
            lines += [f"| {title} | Description |", "|---|---|"]
            lines += [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows] + [""]
    return lines


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
