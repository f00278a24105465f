"""
Requests and cancellations on a real cluster: written as clients write them, followed to their end.

Read and written without the project's own codecs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from integration.rigs.cluster import Cluster
from integration.rigs.daemon_process import run_reassigner
from integration.rigs.kafka_tools import ToolResult
from integration.rigs.plans import OUTCOMES, Targets, children, outcome, specs
from integration.rigs.waiting import eventually

REQUESTS: Final = "/admin/reassignment_requests"
CANCEL: Final = "/admin/cancel_reassignment_in_progress"


def request_of(targets: Targets, **options: object) -> dict[str, Any]:
    """Return a request in its first form."""
    assignments: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), replicas in targets.items():
        assignments.setdefault(topic, {})[str(partition)] = list(replicas)
    return {"version": 1, "assignments": assignments, **options}


def submit_request(
    cluster: Cluster, targets: Targets | Mapping[str, Any] | bytes, **options: object
) -> str:
    """Create a request's znode, from targets, from a document or from bytes; return its name."""
    if isinstance(targets, bytes):
        data = targets
    elif all(isinstance(key, str) for key in targets):
        data = json.dumps(targets).encode()
    else:
        data = json.dumps(request_of(targets, **options)).encode()  # type: ignore[arg-type]
    path = cluster.zk.create(f"{REQUESTS}/request_", data, sequence=True, makepath=True)
    return str(path.rpartition("/")[2])


def cancel(cluster: Cluster, **selection: object) -> str:
    """Create the cancel znode, empty without a selection; return the cancellation's id."""
    data = json.dumps({"version": 1, **selection}).encode() if selection else b""
    _path, stat = cluster.zk.create(CANCEL, data, include_data=True)
    return f"cancel-{stat.czxid:016x}"


def await_outcome(cluster: Cluster, request: str, *, within_s: float) -> dict[str, Any]:
    """Wait until a request, or a cancellation, has ended; return how."""
    return (
        eventually(
            lambda: outcome(cluster, request),
            within_s=within_s,
            what=lambda: f"{request} has ended; open are {specs(cluster)}",
        )
        or {}
    )


def endings(cluster: Cluster, request: str) -> dict[str, tuple[str, str]]:
    """Return fate and detail of every partition of a request that did not reach its target."""
    return {
        f"{topic}-{partition}": (fate, detail)
        for name in children(cluster, f"{OUTCOMES}/{request}")
        if name.startswith("ended-")
        for topic, partition, fate, detail in (
            cluster.read(f"{OUTCOMES}/{request}/{name}") or {"ended": ()}
        )["ended"]
    }


def reassigner(cluster: Cluster, verb: str, *arguments: str) -> ToolResult:
    """Run a verb of the command line against a cluster."""
    return run_reassigner(verb, *arguments, "--zookeeper", cluster.zookeeper_connect)
