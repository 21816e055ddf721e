"""Plans shown: tree, table, JSON, DOT, Mermaid, SVG, and what differs between two. Reads plans, changes none."""

from kubexm.plan.render.data import to_data
from kubexm.plan.render.diff import FieldChange, NodeChange, PlanDiff, diff_to_data, diff_to_text, draw_diff
from kubexm.plan.render.dot import to_dot
from kubexm.plan.render.edges import Edge, all_edges, telling_edges
from kubexm.plan.render.formats import PlanFormat, render, render_diff
from kubexm.plan.render.mermaid import to_mermaid
from kubexm.plan.render.names import id_parts, short_hosts
from kubexm.plan.render.picture import Box, Collapse, Link, Picture, draw
from kubexm.plan.render.svg import to_svg
from kubexm.plan.render.text import columns, to_table, to_tree
from kubexm.plan.render.timeline import timeline_to_html, timeline_to_text, timeline_to_trace

__all__ = [
    "Box",
    "Collapse",
    "Edge",
    "FieldChange",
    "Link",
    "NodeChange",
    "Picture",
    "PlanDiff",
    "PlanFormat",
    "all_edges",
    "columns",
    "diff_to_data",
    "diff_to_text",
    "draw",
    "draw_diff",
    "id_parts",
    "render",
    "render_diff",
    "short_hosts",
    "telling_edges",
    "timeline_to_html",
    "timeline_to_text",
    "timeline_to_trace",
    "to_data",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "to_table",
    "to_tree",
]
