"""
The rules as a resource of the Prometheus operator.

Written anew by `python -m tests.deploy.prometheusrule`; a test compares.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

_DEPLOY: Final = Path(__file__).resolve().parent.parent.parent / "deploy"
_HEAD: Final = "# Made from deploy/prometheus/*.rules.yml by `make reference`.\n"


def resource() -> str:
    """Return the manifest."""
    files = sorted((_DEPLOY / "prometheus").glob("*.rules.yml"))
    groups = [group for file in files for group in yaml.safe_load(file.read_text())["groups"]]
    labels = {"app.kubernetes.io/name": "reassigner"}
    document = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "reassigner", "labels": labels},
        "spec": {"groups": groups},
    }
    return _HEAD + yaml.safe_dump(document, sort_keys=False, width=100)


if __name__ == "__main__":
    path = _DEPLOY / "kubernetes" / "monitoring" / "prometheusrule.yaml"
    path.write_text(resource())
