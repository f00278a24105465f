"""The dashboards as they are shipped, and what they ask Prometheus for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_DIRECTORY: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "dashboards"
DASHBOARDS: Final[dict[str, dict[str, Any]]] = {
    file.stem: json.loads(file.read_text()) for file in sorted(_DIRECTORY.glob("*.json"))
}


def queries(name: str) -> Iterator[str]:
    """Yield every expression of a dashboard: panels, annotations and variables."""
    dashboard = DASHBOARDS[name]
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (annotation["expr"] for annotation in dashboard["annotations"]["list"])
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            pattern = r"label_values\((.*), \w+\)|query_result\((.*)\)"
            call = re.fullmatch(pattern, variable["query"]["query"])
            assert call is not None, variable["query"]
            yield call[1] or call[2]
