"""The requests that an operator names."""

from __future__ import annotations

from collections.abc import Iterable

from controller.core.model import RequestId
from controller.core.requests.submissions import legacy_request_id, queue_request_id
from controller.errors import InvalidInputError
from controller.zk.operator_client import OperatorClient
from controller.znodes.paths import valid_request


def request_ids(texts: Iterable[str] | None) -> list[RequestId]:
    """
    Parse the ids of requests.

    Raises:
        InvalidInputError: a text cannot be the id of a request.

    """
    found = list(texts or ())
    for text in found:
        if not valid_request(text):
            raise InvalidInputError(f"{text!r} is not the id of a request")
    return [RequestId(text) for text in found]


def check_open(operator: OperatorClient, requests: Iterable[RequestId]) -> None:
    """
    Check that requests are known and open.

    Raises:
        InvalidInputError: a request has ended, or is not known.

    """
    missing = set(requests)
    if not missing:
        return
    known = operator.outcomes.ended_requests()
    ended = sorted(name for name in missing if known.get(name))
    if ended:
        raise InvalidInputError(f"request {', '.join(ended)} has ended")
    missing -= known.keys()
    missing -= {s.request for s in operator.requests.open_submissions()}
    queue, plan = operator.requests.queue(), operator.requests.plan()
    missing -= set() if queue is None else {queue_request_id(queue.czxid)}
    missing -= set() if plan is None else {legacy_request_id(plan.czxid)}
    if missing:
        raise InvalidInputError(
            f"request {', '.join(sorted(missing))} is not known; see `reassigner list`"
        )
