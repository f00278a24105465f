"""The form for throttle, window and limits writes what its author changed, and nothing else."""

from __future__ import annotations

import re
from http import HTTPStatus

import pytest

from controller.core.pacing.controls import UNTHROTTLED, Controls, Limits, QueueOrder, UnderMinIsr
from controller.core.requests.submissions import AUTO
from controller.errors import InvalidInputError
from controller.web.forms import LIMITS
from controller.web.limits_form import FIELDS, SHOWN, THROTTLE, changes_of, values_of
from tests.web.serving import READ_TOKEN, Served, bearer
from tests.web.test_control_form import send


def filled(known: Controls, **wanted: str) -> dict[str, str]:
    """Return a form that showed these values, with some changed; names have _ for -."""
    values = values_of(known)
    shown = {f"{SHOWN}{name}": value for name, value in values.items()}
    return {**values, **shown, **{name.replace("_", "-"): v for name, v in wanted.items()}}


def test_what_is_not_changed_is_not_written() -> None:
    """Another operator may have changed it since the form was shown."""
    known = Controls(throttle=5_000_000, limits=Limits(step_size=2, order=QueueOrder.SMALL_FIRST))
    changed = changes_of(filled(known))
    assert not changed.limits
    assert not changed.is_throttle_changed


def test_every_value_is_parsed_as_the_command_does() -> None:
    """An empty one that was set is unset."""
    known = Controls(throttle=5_000_000, limits=Limits(max_partitions_in_flight=7))
    changed = changes_of(
        filled(
            known,
            throttle="50MB",
            window="22:00-05:00 Europe/Berlin",
            max_partitions_in_flight="",
            max_incoming="2",
            max_outgoing="3",
            max_bytes="10GB",
            leader_moves="4",
            step_size="all",
            order="large_first",
            under_min_isr="warn",
        )
    )
    assert (changed.throttle, changed.is_throttle_changed) == (50_000_000, True)
    assert changed.limits.unset == ["max-partitions-in-flight"]
    values = dict(changed.limits.values)
    assert str(values.pop("window")) == "22:00-05:00 Europe/Berlin"
    assert values == {
        "max-incoming": 2,
        "max-outgoing": 3,
        "max-bytes": 10_000_000_000,
        "leader-moves": 4,
        "step-size": "all",
        "order": QueueOrder.LARGE_FIRST,
        "under-min-isr": UnderMinIsr.WARN,
    }
    assert not changes_of(filled(known, throttle="")).throttle
    assert changes_of(filled(known, throttle="auto")).throttle == AUTO
    lifted = Controls(throttle=UNTHROTTLED)
    assert changes_of(filled(known, throttle="none")).throttle == UNTHROTTLED
    assert not changes_of(filled(lifted)).is_throttle_changed


@pytest.mark.parametrize("name", [THROTTLE, *(f.name for f in FIELDS)])
def test_wrong_values_are_refused_with_their_name(name: str) -> None:
    """Before anything is written."""
    with pytest.raises(InvalidInputError, match=rf"^{name}: "):
        changes_of({**filled(Controls()), name: "<no>"})


def test_operator_sees_and_changes_what_is_set(steerable: Served) -> None:
    """The form has the values, keeps what was typed where one is wrong, and is audited."""
    cookie, csrf = steerable.log_in()
    page = steerable.fetch(LIMITS, Cookie=cookie)[1]
    assert "now 100, the setting" in page
    assert f'href="{LIMITS}"' in steerable.fetch("/", Cookie=cookie)[1]
    wrong = filled(Controls(), throttle="fast", max_incoming="2")
    status, page = send(steerable, LIMITS, cookie, csrf=csrf, **wrong)
    assert status == HTTPStatus.CONFLICT
    assert "throttle: a rate such as" in page
    assert 'value="fast"' in page
    assert steerable.cluster.controls.limits == Limits()
    right = filled(Controls(), throttle="50MB", max_incoming="2")
    assert send(steerable, LIMITS, cookie, csrf=csrf, **right)[0] == HTTPStatus.SEE_OTHER
    assert steerable.cluster.controls.throttle == 50_000_000
    assert steerable.cluster.controls.limits == Limits(max_incoming_per_broker=2)
    assert [(a.action, a.by, a.result) for a in steerable.audited][-1] == (
        "limits",
        "alice",
        "done",
    )
    page = steerable.fetch(LIMITS, Cookie=cookie)[1]
    assert re.search(r'name="throttle"[^>]* value="50000000"', page)


def test_reader_sees_the_limits_and_no_form(steerable: Served) -> None:
    """Nor may a reader send one."""
    page = steerable.fetch("/", **bearer(READ_TOKEN))[1]
    assert "always open" in page
    assert LIMITS not in page
    response = steerable.fetch(LIMITS, **bearer(READ_TOKEN))[0]
    assert response.status == HTTPStatus.FORBIDDEN
