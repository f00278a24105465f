"""The dashboards: what Grafana needs of them, and what they ask Prometheus for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.dashboards import DASHBOARDS, queries
from tests.deploy.exported import (
    FOREIGN,
    SCRAPED,
    exported,
    filled_in,
    grouping_labels,
    selectors,
)

DEPLOY: Final = Path(__file__).resolve().parent.parent.parent / "deploy"
PANELS: Final = [
    (name, panel)
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    if panel["type"] != "row"
]
EXPORTED: Final = exported()


def rules() -> Iterator[str]:
    """Yield every expression of the rules."""
    for file in sorted((DEPLOY / "prometheus").glob("*.rules.yml")):
        for group in yaml.safe_load(file.read_text())["groups"]:
            yield from (rule["expr"] for rule in group["rules"])


def unknown(expression: str) -> list[str]:
    """Return the series and labels of an expression that the daemon does not export."""
    recorded = {"cluster:kafka_active_controllers:sum"}
    wrong = []
    known_labels = set(SCRAPED)
    for series, labels in selectors(expression):
        if series in FOREIGN | recorded:
            continue
        if series not in EXPORTED:
            wrong.append(series)
            continue
        known_labels |= EXPORTED[series]
        wrong += [f"{series}: {label}" for label in labels - EXPORTED[series]]
    return wrong + sorted(grouping_labels(expression) - known_labels)


def test_rates_are_measured_by_the_daemon_alone() -> None:
    """A rate over the range of a query differs from that of the status page."""
    counted = re.compile(r"rate\(reassigner_(copied|broker_received|broker_served)_bytes_total")
    asked = [query for name in DASHBOARDS for query in queries(name)]
    assert not [query for query in asked if counted.search(query)]


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_each_selects_a_cluster_and_links_the_status_page(name: str) -> None:
    """Also where Prometheus adds no label ``cluster``: all of them are the default."""
    variables = {v["name"]: v for v in DASHBOARDS[name]["templating"]["list"]}
    assert variables["cluster"]["includeAll"]
    assert variables["cluster"]["allValue"] == ".*"
    links = {link["title"]: link for link in DASHBOARDS[name]["links"]}
    assert links["Status page"]["url"] == "${page:raw}"
    own = [query for query in queries(name) if query != "reassigner_leader"]
    assert [query for query in own if 'cluster=~"$cluster"' not in query] == []


def test_requests_have_their_ids() -> None:
    """No panel names a slot."""
    for panel in (panel for _, panel in PANELS):
        assert "slot" not in panel["title"]
        assert not [t for t in panel["targets"] if "slot" in t["legendFormat"]]


def test_there_are_four() -> None:
    """Overview, one request, brokers, internals."""
    assert set(DASHBOARDS) == {"overview", "request", "brokers", "internals"}
    assert len({dashboard["uid"] for dashboard in DASHBOARDS.values()}) == 4


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_every_query_names_what_the_daemon_exports(name: str) -> None:
    """By series and by label."""
    assert {query: unknown(filled_in(query)) for query in queries(name)} == {
        query: [] for query in queries(name)
    }


def test_every_rule_names_what_the_daemon_exports() -> None:
    """By series and by label."""
    assert [wrong for expression in rules() for wrong in unknown(expression)] == []


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("sum(reassigner_no_such_thing)", ["reassigner_no_such_thing"]),
        ("rate(reassigner_steps[5m])", ["reassigner_steps"]),
        ('reassigner_partitions{state="x"}', ["reassigner_partitions: state"]),
        ("sum by (reason) (reassigner_partitions)", ["reason"]),
        ("sum by (phase) (reassigner_partitions)", []),
    ],
)
def test_unknown_metrics_are_found(expression: str, wrong: list[str]) -> None:
    """A name without its suffix, another metric's label."""
    assert unknown(expression) == wrong


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_panels_have_a_place_of_their_own(name: str) -> None:
    """No two overlap, none leaves the grid of 24, no two have one id."""
    taken: set[tuple[int, int]] = set()
    panels = DASHBOARDS[name]["panels"]
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert max(x for x, _ in cells) < 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=lambda v: v if isinstance(v, str) else "")
def test_a_panel_says_what_it_shows(name: str, panel: dict[str, Any]) -> None:
    """A title, a unit, the data source that was chosen, and a letter for each query."""
    del name
    assert panel["title"]
    assert panel["type"] == "heatmap" or panel["fieldConfig"]["defaults"]["unit"]
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert {source["uid"] for source in sources} == {"${datasource}"}
    letters = [target["refId"] for target in panel["targets"]]
    assert sorted(set(letters)) == letters


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_every_variable_that_is_used_is_there(name: str) -> None:
    """And Grafana fills in the rest."""
    used = set(re.findall(r"\$(?:\{)?(\w+)", json.dumps(DASHBOARDS[name])))
    defined = {variable["name"] for variable in DASHBOARDS[name]["templating"]["list"]}
    assert used - {"__rate_interval", "__all"} == defined
