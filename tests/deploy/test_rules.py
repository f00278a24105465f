"""The rules of Prometheus: what promtool says of them, their tests, and their runbooks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.promtool import promtool

ROOT: Final = Path(__file__).resolve().parent.parent.parent
DIRECTORY: Final = ROOT / "deploy" / "prometheus"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"
FILES: Final = sorted(DIRECTORY.glob("*.rules.yml"))
GROUPS: Final[list[dict[str, Any]]] = [
    group for file in FILES for group in yaml.safe_load(file.read_text())["groups"]
]
ALERTS: Final[dict[str, dict[str, Any]]] = {
    rule["alert"]: rule for group in GROUPS for rule in group["rules"] if "alert" in rule
}
TESTS: Final[list[dict[str, Any]]] = yaml.safe_load((DIRECTORY / "rules.test.yml").read_text())[
    "tests"
]


def test_promtool_takes_the_configuration_and_every_rule() -> None:
    """Expressions, durations and templates are what Prometheus understands."""
    code, said = promtool("check", "config", "prometheus.yml", directory=DIRECTORY)
    assert code == 0, said
    code, said = promtool(
        "check", "rules", "--lint-fatal", *(file.name for file in FILES), directory=DIRECTORY
    )
    assert code == 0, said


def test_the_rules_pass_their_tests() -> None:
    """Every alert fires when it should and is silent when it should."""
    code, said = promtool("test", "rules", "rules.test.yml", directory=DIRECTORY)
    assert code == 0, said


def test_a_rule_that_never_fires_would_fail_its_test(tmp_path: Path) -> None:
    """The tests do look at the rules."""
    for file in (*FILES, DIRECTORY / "rules.test.yml"):
        text = file.read_text().replace("reassigner_stalled_partitions) > 0", "nothing) > 0")
        (tmp_path / file.name).write_text(text)
    code, said = promtool("test", "rules", "rules.test.yml", directory=tmp_path)
    assert code != 0
    assert "ReassignerStalled" in said


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_an_alert_is_tested_firing_and_silent(alert: str) -> None:
    """At a moment each."""
    judged = [
        bool(one["exp_samples"])
        for test in TESTS
        for one in test["promql_expr_test"]
        if f'alertname="{alert}"' in one["expr"]
    ]
    assert set(judged) == {True, False}


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(alert: str) -> None:
    """A severity people can route by, two texts, and a page that exists and is about it."""
    rule = ALERTS[alert]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    page = ROOT / rule["annotations"]["runbook_url"]
    assert page == RUNBOOKS / f"{alert}.md"
    assert page.read_text().startswith(f"# {alert}\n")


def test_every_runbook_belongs_to_an_alert_and_has_the_four_sections() -> None:
    """Meaning, impact, diagnosis and remedy, in this order."""
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == set(ALERTS)
    for page in RUNBOOKS.glob("*.md"):
        headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
        assert headings == ["Meaning", "Impact", "Diagnosis", "Remedy"], page.name


def test_the_documentation_lists_every_alert() -> None:
    """With its severity and its page."""
    page = (ROOT / "docs" / "guide" / "monitoring.md").read_text()
    rows = re.findall(r"^\| \[(\w+)\]\((\S+)\) \| (\w+) \|", page, re.MULTILINE)
    assert {(alert, link.replace("../", "docs/"), severity) for alert, link, severity in rows} == {
        (alert, rule["annotations"]["runbook_url"], rule["labels"]["severity"])
        for alert, rule in ALERTS.items()
    }


def test_our_controller_counts_as_one_of_the_cluster() -> None:
    """Brokers report no active controller in a tenure; the rule adds ours."""
    rules = (rule for group in GROUPS for rule in group["rules"])
    (record,) = (rule for rule in rules if "record" in rule)
    assert "reassigner_active_controller" in record["expr"]
    assert record["record"] in ALERTS["KafkaActiveControllerCount"]["expr"]


def test_the_rules_of_kubernetes_are_the_same() -> None:
    """The operator's resource holds the groups of both files, word for word."""
    file = ROOT / "deploy" / "kubernetes" / "monitoring" / "prometheusrule.yaml"
    resource = yaml.safe_load(file.read_text())
    assert resource["kind"] == "PrometheusRule"
    assert resource["spec"]["groups"] == GROUPS
