"""One HTML file with all in it: style, figures, and the library that draws them.

The library is 4.8 MB as text, so it is packed by gzip: the browser unpacks it. A policy in the page
forbids every request, so that it shows the same on a laptop without a network.
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from hybridjob.errors import ReportError
from hybridjob.report import words
from hybridjob.report.figures import figures_of

if TYPE_CHECKING:
    from hybridjob.report.facts import Facts

_TITLES = {
    "loss": "Loss",
    "speed": "Speed",
    "timeline": "Lives, generations, checkpoints and faults",
    "balance": "Balance of the servers",
}
_WIDE = ("timeline", "balance", "phases-")
_LIBRARY = "plotly/package_data/plotly.min.js"


def render_page(facts: Facts, library: bytes | None = None) -> str:
    """Write the page. Raises ReportError if the plotting library is not installed."""
    figures = figures_of(facts)
    code = _packed(plotly_js() if library is None else library) if figures else ""
    cause, detail = words.cause(facts)
    return _template().render(
        facts=facts,
        tone=words.tone(facts.state),
        cause=cause,
        detail=detail,
        started=words.moment(facts.start),
        written=words.moment(time.time()),
        digest=facts.summary.get("state_digest", ""),
        tiles=words.tiles(facts),
        charts=_charts(_ordered(figures)),
        tables=_tables(facts),
        figures=_for_script(figures),
        library=code,
        style=_asset("page.css"),
        script=_asset("page.js"),
    )


def plotly_js() -> bytes:
    """Give plotly.js as the Python package brings it, without importing that.

    Raises ReportError that says how to install it.
    """
    found = importlib.util.find_spec("plotly")
    for folder in (found and found.submodule_search_locations) or ():
        path = Path(folder).parent / _LIBRARY
        if path.is_file():
            return path.read_bytes()
    raise ReportError("a report needs plotly, which is not installed: pip install plotly")


def _tables(facts: Facts) -> list[dict[str, Any]]:
    asked = "partition", "nodes x tasks", "cores a task", "GPUs a node", "memory a node", "limit"
    used = "on", "ran for", "CPU time", "most memory of a task"
    tables = [
        ("Faults", ("when", "generation", "first cause", "then"), words.faults(facts)),
        ("Resources: asked for, and used", ("component", *asked, *used), words.resources(facts)),
        ("Checkpoints saved (the last 20)",
         ("when", "step", "kind", "MB", "stall s", "written in s"), words.checkpoints(facts)),
        ("Ids served since the last start", ("server", "ids", "times the mean"),
         words.ids_served(facts)),
        ("Where the ranks ran", ("rank", "role", "host"), words.ranks(facts)),
    ]  # fmt: skip
    return [{"title": title, "heads": heads, "rows": rows} for title, heads, rows in tables if rows]


def _ordered(figures: dict[str, Any]) -> list[str]:
    order = ("loss", "test-", "speed", "phases-", "timeline", "balance")
    return sorted(
        figures, key=lambda name: next(i for i, start in enumerate(order) if name.startswith(start))
    )


def _charts(names: list[str]) -> list[dict[str, Any]]:
    """Lay the charts out in two columns; one that would stand alone gets both."""
    narrow = [name for name in names if not name.startswith(_WIDE)]
    alone = narrow[-1] if len(narrow) % 2 else None
    return [_chart(name, wide=name == alone or name not in narrow) for name in names]


def _chart(name: str, *, wide: bool) -> dict[str, Any]:
    kind, _, rest = name.partition("-")
    title = {"test": f"Test {rest}", "phases": f"Where a step's time goes: {rest}"}.get(kind)
    return {"id": name, "title": title or _TITLES[name], "wide": wide}


def _packed(library: bytes) -> str:
    return base64.b64encode(gzip.compress(library, 6, mtime=0)).decode("ascii")


def _for_script(values: Any) -> str:
    """Write JSON that cannot end the script element that it stands in; NaN is a gap."""
    text = json.dumps(_finite(values), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {key: _finite(inner) for key, inner in value.items()}
        case list():
            return [_finite(inner) for inner in value]
        case float() if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124
            return None
        case _:
            return value


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("page.html.j2"))


def _asset(name: str) -> str:
    return (resources.files("hybridjob.report") / name).read_text(encoding="utf-8")
