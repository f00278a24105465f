"""Whatever a peer sends is either a request or refused, in bounded time."""

from __future__ import annotations

from tests.endpoint.fuzzing import fuzz
from tests.endpoint.socket_fuzzing import fuzz_socket


def test_every_frame_is_a_request_or_refused() -> None:
    """Of 100,000 that are almost valid or random, and what is a request can be answered."""
    outcomes = fuzz(100_000)
    assert outcomes.keys() == {
        "refused",
        "local",
        "relayed",
        "AllocateProducerIds",
        "AlterReassignments",
        "ElectLeaders",
        "ListReassignments",
        "CreateTopicsAnswer",
        "CreatePartitionsAnswer",
        "DeleteTopicsAnswer",
        "AlterPartition",
        "ApiVersions",
        "ControlledShutdown",
        "SaslAuthenticate",
        "SaslHandshake",
    }


def test_no_frame_harms_a_running_server() -> None:
    """Of 3,000; each is answered or closes its connection, and others are served as before."""
    outcomes = fuzz_socket(3_000)
    assert outcomes.keys() == {"answered", "closed", "errors"}
    assert outcomes["errors"] == 0
    assert outcomes["answered"]
