"""
A real Prometheus that scrapes daemons by the configuration we ship.

Its program is Debian's package `prometheus`; who uses this skips where it is not installed.
"""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from integration.rigs.daemon_process import Daemon
from integration.rigs.processes import ChildProcess
from integration.rigs.reserved_ports import ReservedPort

PROGRAM: Final = shutil.which("prometheus")
_SHIPPED: Final = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"
_ANSWER_WITHIN_S: Final = 10.0


class Prometheus(ChildProcess):
    """
    One Prometheus.

    Args:
        directory: For its configuration, data and log.
        daemons: What it scrapes, each second, as the job that the rules expect.
    """

    def __init__(self, directory: Path, daemons: Sequence[Daemon]) -> None:
        assert PROGRAM is not None, "prometheus is not installed"
        directory.mkdir(parents=True)
        self.port = ReservedPort()
        config: dict[str, Any] = yaml.safe_load((_SHIPPED / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(_SHIPPED / name) for name in config["rule_files"]]
        (job,) = config["scrape_configs"]
        job["static_configs"] = [{"targets": [daemon.port.address for daemon in daemons]}]
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        command = [
            PROGRAM,
            f"--config.file={file}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={self.port.address}",
            "--log.level=warn",
        ]
        super().__init__("prometheus", command, log=directory / "prometheus.log")

    def is_ready(self) -> bool:
        """Ask it."""
        try:
            with urllib.request.urlopen(
                f"http://{self.port.address}/-/ready", timeout=_ANSWER_WITHIN_S
            ):
                return True
        except OSError:
            return False

    def query(self, path: str, **parameters: object) -> Any:  # noqa: ANN401 - what JSON holds
        """
        Return the data of an answer of its API.

        Raises:
            ValueError: It does not understand the question.
        """
        query = urllib.parse.urlencode(parameters)
        url = f"http://{self.port.address}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=_ANSWER_WITHIN_S) as response:
                document = json.load(response)
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters}: {error.read().decode(errors='replace')}") from error
        assert document["status"] == "success", document
        return document["data"]

    def value(self, expression: str) -> float | None:
        """Return the one value that an expression has now, None where it has none."""
        result = self.query("query", query=expression)["result"]
        return float(result[0]["value"][1]) if result else None

    def was_seen(self, expression: str, since: float, until: float) -> bool:
        """Return whether an expression had a value at any second between two Unix times."""
        parameters = {"query": expression, "start": since, "end": until, "step": 1}
        return bool(self.query("query_range", **parameters)["result"])
