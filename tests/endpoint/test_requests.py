"""Each request of the endpoint is described once, and everything that needs it has it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, get_args

import pytest
from kafka.protocol.api_key import ApiKey

from controller.core.calls.broker_requests import BrokerAnswer
from controller.core.calls.client_requests import CedeRoleAnswer, ClientAnswer, TopicAnswer
from controller.endpoint import broker_service, client_codec, client_service, codec, relayed_frames
from controller.endpoint.codec import RequestHeader
from controller.kafka_errors import NOT_CONTROLLER
from tests.endpoint.requests import client_frame

FIRST_REFUSABLE: Final = {ApiKey.ElectLeaders: 1}
"""The first version with an error of the whole request, where it is not the lowest."""
NAMES_NO_PARTITION: Final[frozenset[int]] = frozenset()
"""Requests of ``client_codec.SERVED`` that are about something else."""


def test_every_answer_of_the_core_is_encoded() -> None:
    """A row of ``codec.REQUESTS`` or ``client_codec.REQUESTS`` is missing otherwise."""
    of_brokers = {codec.REQUESTS[key].answer for key in codec.OF_BROKERS}
    assert of_brokers == set(get_args(BrokerAnswer))
    elsewhere = {*get_args(TopicAnswer), CedeRoleAnswer}
    of_clients = {request.answer for request in client_codec.REQUESTS.values()}
    assert of_clients == set(get_args(ClientAnswer)) - elsewhere


def test_no_request_is_counted_under_the_name_of_another() -> None:
    """The names are labels of one metric."""
    names = [*client_service.REQUESTS, *broker_service.REQUESTS]
    assert len(set(names)) == len(names)


def test_each_request_of_a_client_has_one_way_to_its_answer() -> None:
    """``ClientService.answer`` tries these in turn: what stands in two never gets to the second."""
    ways: list[Collection[int]] = [
        *(client_service.UNRELAYED, client_service.CEDABLE),
        *(client_codec.SERVED, client_codec.ENTRY_REQUESTS),
    ]
    keys = [key for way in ways for key in way]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("key", client_codec.SERVED)
def test_partitions_of_a_request_are_counted(key: int) -> None:
    """``partitions_of`` knows each request: memory is reserved for what it names."""
    highest = client_codec.SERVED[key][1]
    _, request = client_codec.decode(client_frame(key, highest), "a client")
    assert request is not None
    assert client_codec.partitions_of(request) == (2 if key not in NAMES_NO_PARTITION else 0)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (key, version)
        for key, (lowest, highest) in client_codec.SERVED.items()
        for version in range(FIRST_REFUSABLE.get(key, lowest), highest + 1)
    ],
)
def test_error_in_the_answer_to_a_client_is_found(key: int, version: int) -> None:
    """``relayed_frames.first_error`` knows where each answer has it."""
    header = RequestHeader(key, version, 77, "1")
    answer = client_codec.refusal(header, NOT_CONTROLLER)[4:]
    assert relayed_frames.first_error(header, answer) == NOT_CONTROLLER


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (key, version)
        for key, (lowest, highest) in codec.OF_BROKERS.items()
        for version in range(lowest, highest + 1)
    ],
)
def test_error_in_the_answer_to_a_broker_is_found(key: int, version: int) -> None:
    """``relayed_frames.error_for_broker`` knows where each answer has it."""
    header = RequestHeader(key, version, 77, "1")
    answer = codec.refusal(header, NOT_CONTROLLER)[4:]
    assert relayed_frames.error_for_broker(header, answer) == NOT_CONTROLLER
