"""
What is sent to brokers, through the decoders of their releases; and what they send, through ours.

A broker stops when it cannot decode an answer of its controller. Every answer and every request is
therefore read here by Kafka's own libraries, in every version that a release has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from typing import Final

import pytest
from kafka.protocol.api_key import ApiKey

from controller.brokers import config_validation, frames
from controller.core.calls.broker_requests import ControlledShutdownAnswer
from controller.core.model import TopicPartition
from controller.endpoint import client_codec, codec, topic_codec
from integration.decoder_gate import client_frames, controller_frames, endpoint_frames
from integration.decoder_gate.endpoint_frames import of_release, of_today
from integration.decoder_gate.gate_process import GateProcess, NotReadableError

pytestmark = pytest.mark.acceptance

_EVERYWHERE: Final = {7: 3, 17: 1, 18: 3, 36: 2}
HIGHEST: Final[dict[str, dict[int, int]]] = {
    "2.7.2": {**_EVERYWHERE, 4: 4, 5: 3, 6: 6, 56: 0},
    "2.8.2": {**_EVERYWHERE, 4: 5, 5: 3, 6: 7, 56: 0},
    "3.2.3": {**_EVERYWHERE, 4: 6, 5: 3, 6: 7, 56: 1, 67: 0},
    "3.5.2": {**_EVERYWHERE, 4: 7, 5: 4, 6: 8, 56: 3, 67: 0},
    "3.9.1": {**_EVERYWHERE, 4: 7, 5: 4, 6: 8, 56: 3, 67: 0, 18: 4},
}
"""The highest version of each request of brokers and controllers in each release."""
_CLIENTS: Final = {16: 4, 19: 7, 20: 6, 37: 3, 43: 2, 44: 1, 45: 0, 46: 0}
HIGHEST_OF_CLIENTS: Final[dict[str, dict[int, int]]] = {
    "2.7.2": {**_CLIENTS, 19: 6, 20: 5, 32: 3, 35: 2},
    "2.8.2": {**_CLIENTS, 32: 4, 35: 2},
    "3.2.3": {**_CLIENTS, 32: 4, 35: 3, 66: 0},
    "3.5.2": {**_CLIENTS, 32: 4, 35: 4, 66: 0},
    "3.9.1": {**_CLIENTS, 16: 5, 32: 4, 35: 4, 66: 1},
}
"""The same for requests of clients."""
CORRELATION: Final = -2_000_000_001

Gate = Callable[[str], GateProcess]


def every_version(
    offered: Mapping[int, tuple[int, int]],
    releases: Mapping[str, Mapping[int, int]] = HIGHEST,
) -> list[tuple[str, int, int]]:
    """Return release, key and version of what we and a release have in common."""
    return [
        (release, key, version)
        for release, highest in releases.items()
        for key, (low, high) in offered.items()
        if key in highest
        for version in range(low, min(high, highest[key]) + 1)
    ]


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """Give one process for each release, started when a test first needs it."""
    with ExitStack() as running:

        @cache
        def started(release: str) -> GateProcess:
            directory = tmp_path_factory.mktemp("gate")
            return running.enter_context(GateProcess(release, directory))

        yield started


@pytest.mark.parametrize("release", HIGHEST)
def test_nothing_that_a_release_has_is_left_out(gate: Gate, release: str) -> None:
    """The table of this module says which versions are tried."""
    keys = [*controller_frames.VERSIONS, *codec.ADVERTISED]
    known = {key: versions[1] for key in keys if (versions := gate(release).versions(key))}
    assert known == HIGHEST[release]
    keys = [*client_frames.VERSIONS]
    known = {key: versions[1] for key in keys if (versions := gate(release).versions(key))}
    assert known == HIGHEST_OF_CLIENTS[release]


# --- answers of the endpoint ---------------------------------------------------------------------


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "refused"])
@pytest.mark.parametrize(("release", "key", "version"), every_version(codec.ADVERTISED))
def test_answer_is_read_as_meant(
    gate: Gate, release: str, key: int, version: int, *, is_full: bool
) -> None:
    """Every field has its value, and no byte is left over."""
    answer, meant = endpoint_frames.answer(key, version, is_full=is_full)
    header = codec.RequestHeader(key, version, CORRELATION, "1")
    frame = (
        codec.encode(header, answer)
        if answer
        else codec.api_versions_response(header, codec.ADVERTISED)
    )
    read = gate(release).read_response(key, version, CORRELATION, frame[4:])
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert of_today(read) == meant


def test_newer_api_versions_is_refused_so_that_the_broker_repeats_it(gate: Gate) -> None:
    """Brokers of 3.9 begin with version 4, which is not served (KIP-511)."""
    frame = codec.api_versions_response(
        codec.RequestHeader(18, 4, CORRELATION, "1"), codec.ADVERTISED
    )
    assert gate("3.9.1").read_response(18, 4, CORRELATION, frame[4:]) == {
        "errorCode": 35,
        "apiKeys": [{"apiKey": 18, "minVersion": 0, "maxVersion": 3}],
    }


@pytest.mark.parametrize("release", HIGHEST)
def test_wrong_bytes_do_not_pass_the_gate(gate: Gate, release: str) -> None:
    """A wrong correlation id, a header of the wrong version, and a byte too many or too few."""
    process = gate(release)
    answer = ControlledShutdownAnswer(0, (TopicPartition("orders", 7),))
    frame = codec.encode(codec.RequestHeader(7, 3, CORRELATION, "1"), answer)[4:]
    process.read_response(7, 3, CORRELATION, frame)
    plain_header = frame[:4] + frame[5:]
    for wrong in (frame + b"\x00", frame[:-1], plain_header):
        with pytest.raises(NotReadableError):
            process.read_response(7, 3, CORRELATION, wrong)
    with pytest.raises(NotReadableError, match="Correlation"):
        process.read_response(7, 3, CORRELATION + 1, frame)


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "refused"])
@pytest.mark.parametrize(
    ("release", "key", "version"), every_version(client_frames.VERSIONS, HIGHEST_OF_CLIENTS)
)
def test_answer_to_a_client_is_read_as_meant(
    gate: Gate, release: str, key: int, version: int, *, is_full: bool
) -> None:
    """A client does not stop on a wrong byte, but its request fails."""
    frame, meant = client_frames.answer(key, version, is_full=is_full)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert gate(release).read_response(key, version, CORRELATION, frame[4:]) == meant


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "null"])
@pytest.mark.parametrize(
    ("release", "key", "version"),
    every_version({**client_codec.SERVED, **topic_codec.TOPICS_SERVED}, HIGHEST_OF_CLIENTS),
)
def test_request_of_a_client_is_decoded_as_meant(
    gate: Gate, release: str, key: int, version: int, *, is_full: bool
) -> None:
    """Null lists mean all, and null replicas cancel."""
    body, meant = client_frames.request(key, version, release, is_full=is_full)
    frame = gate(release).write_request(key, version, CORRELATION, "tool", body)
    header, request = decode_request(key, frame)
    assert header == codec.RequestHeader(key, version, CORRELATION, "tool")
    assert request == meant


def decode_request(key: int, frame: bytes) -> tuple[codec.RequestHeader, object]:
    """Return what the endpoint reads."""
    if key in topic_codec.TOPICS_SERVED:
        return topic_codec.decode(frame)
    return client_codec.decode(frame, client_frames.CLIENT)


# --- requests of brokers -------------------------------------------------------------------------


@pytest.mark.parametrize(("release", "key", "version"), every_version(codec.ADVERTISED))
def test_request_of_a_broker_is_decoded_as_meant(
    gate: Gate, release: str, key: int, version: int
) -> None:
    """Every field has its value, and the header what the answer needs."""
    body, meant = endpoint_frames.request(key, version)
    named = of_release(body, release) if key == ApiKey.AlterPartition else body
    frame = gate(release).write_request(key, version, CORRELATION, "bröker-4", named)
    header, request = codec.decode(frame)
    assert header == codec.RequestHeader(key, version, CORRELATION, "bröker-4")
    assert request == meant


def test_newer_api_versions_of_a_broker_is_decoded(gate: Gate) -> None:
    """Whatever its body contains."""
    frame = gate("3.9.1").write_request(18, 4, CORRELATION, "4", endpoint_frames.CLIENT)
    header, request = codec.decode(frame)
    assert header == codec.RequestHeader(18, 4, CORRELATION, "4")
    assert request == codec.ApiVersions()


# --- requests of the controller ------------------------------------------------------------------


@pytest.mark.parametrize(("release", "key", "version"), every_version(controller_frames.VERSIONS))
def test_request_of_the_controller_is_read_as_meant(
    gate: Gate, release: str, key: int, version: int
) -> None:
    """Every field has its value, and nothing claims to be of KRaft."""
    build, meant = controller_frames.REQUESTS[key]
    frame = frames.frame_of(build(version))
    frame.with_header(correlation_id=CORRELATION, client_id="1000000")
    read = gate(release).read_request(frame.encode(framed=False))
    assert of_today(read) == meant(version)


@pytest.mark.parametrize("version", range(config_validation.ALTER_CONFIGS_MAX + 1))
@pytest.mark.parametrize("release", HIGHEST)
def test_request_to_validate_settings_alters_none(gate: Gate, release: str, version: int) -> None:
    """Brokers would change the topics that it names otherwise."""
    settings = (("retention.ms", "5"), ("cleanup.policy", "compact"))
    resources = [(2, name, settings) for name in ("orders", "payments")]
    request = config_validation.validation_request(version, resources)
    frame = frames.frame_of(request)
    frame.with_header(correlation_id=CORRELATION, client_id="1000000")
    configs = [{"name": name, "value": value} for name, value in settings]
    assert gate(release).read_request(frame.encode(framed=False)) == {
        "resources": [
            {"resourceType": 2, "resourceName": name, "configs": configs}
            for name in ("orders", "payments")
        ],
        "validateOnly": True,
    }
