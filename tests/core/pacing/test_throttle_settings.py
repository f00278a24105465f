"""One setting at a time: what is added to what others set, and what is left of it at the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import ZkVersion
from controller.core.pacing.throttle_settings import (
    EVERY_REPLICA,
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LIST_BYTES_MAX,
    AppliedThrottle,
    Entity,
    EntityConfig,
    Setting,
    entries,
    list_with,
    rate_to_set,
    settings_without_ours,
)

ENTRIES = st.builds("{}:{}".format, st.integers(0, 30), st.integers(0, 9))
LISTS = st.lists(ENTRIES, unique=True, max_size=8)
MANY = tuple(f"{n}:4" for n in range(LIST_BYTES_MAX // 7))


def left(key: str, have: str | None, ours: str, before: str | None) -> str | None:
    """Return what a setting is after its lease ended."""
    lease = AppliedThrottle(Entity("topics/t"), {key: ours}, {key: before}, ZkVersion(0))
    values = {} if have is None else {key: have}
    rest = settings_without_ours(lease, EntityConfig(values, ZkVersion(1)))
    return have if rest is None else dict(rest).get(key)


@given(theirs=st.none() | LISTS, wanted=LISTS, later=LISTS)
def test_what_others_listed_is_what_is_left(
    theirs: list[str] | None, wanted: list[str], later: list[str]
) -> None:
    """Whatever stood there, whatever we add, whatever others add on top."""
    before = None if theirs is None else ",".join(theirs)
    setting = list_with(wanted, before, None, None)
    if setting is None:
        assert set(wanted) <= set(theirs or ())
        return
    assert set(wanted) <= set(entries(setting.value))
    assert left(FOLLOWER_REPLICAS, setting.value, setting.ours, setting.before) == before
    added = [e for e in later if e not in entries(setting.value)]
    if added:
        edited = ",".join([setting.value, *added])
        expected = ",".join([*(theirs or ()), *added])
        assert left(FOLLOWER_REPLICAS, edited, setting.ours, setting.before) == expected


@given(theirs=LISTS, first=LISTS, second=LISTS)
def test_list_that_was_changed_twice_is_given_back_as_it_was(
    theirs: list[str], first: list[str], second: list[str]
) -> None:
    """A second request adds to what the first one listed."""
    before = ",".join(theirs)
    once = list_with(first, before, None, None) or Setting(before, "", before)
    twice = list_with(second, once.value, once.ours or None, once.before) or once
    assert left(FOLLOWER_REPLICAS, twice.value, twice.ours, twice.before) == before


def test_list_that_covers_what_is_wanted_is_not_rewritten() -> None:
    """Partitions end one by one; the list names all of them until the last has ended."""
    assert list_with(("1:4",), "0:4,1:4", "0:4,1:4", None) is None


def test_oversized_list_becomes_every_replica() -> None:
    """A znode takes 1 MB, and each broker reads it whole."""
    setting = list_with(MANY, "9:9", None, None)
    assert setting == Setting(EVERY_REPLICA, EVERY_REPLICA, "9:9")
    assert list_with(MANY, EVERY_REPLICA, EVERY_REPLICA, "9:9") is None
    assert left(FOLLOWER_REPLICAS, EVERY_REPLICA, EVERY_REPLICA, "9:9") == "9:9"
    assert left(FOLLOWER_REPLICAS, EVERY_REPLICA, EVERY_REPLICA, None) is None


def test_list_that_outgrows_its_size_later_remembers_what_was_not_ours() -> None:
    """Its own first entries do not stay behind."""
    first = list_with(("0:4",), "9:9", None, None)
    assert first is not None
    grown = list_with(MANY, first.value, first.ours, first.before)
    assert grown == Setting(EVERY_REPLICA, EVERY_REPLICA, "9:9")


def test_a_list_that_replaced_the_wildcard_is_left_alone() -> None:
    """He changed it since."""
    assert left(FOLLOWER_REPLICAS, "1:2", EVERY_REPLICA, "9:9") == "1:2"


def test_a_wildcard_that_replaced_our_list_stays() -> None:
    """It is his, and covers what we wanted."""
    assert list_with(("0:4",), "*", "0:4", None) is None
    assert left(FOLLOWER_REPLICAS, "*", "0:4", None) == "*"


def test_empty_value_that_stood_there_comes_back() -> None:
    """Not having a setting and having an empty one are two things."""
    setting = list_with(("0:4",), "", None, None)
    assert setting == Setting("0:4", "0:4", "")
    assert left(FOLLOWER_REPLICAS, "0:4", "0:4", "") == ""


def test_rate_is_set_where_there_is_none_or_an_older_one_of_ours() -> None:
    """And again where ours was cleared from outside."""
    fresh = Setting("500", "500", None)
    assert rate_to_set(500, None, None) == fresh
    assert rate_to_set(500, "700", "700") == fresh
    assert rate_to_set(500, None, "500") == fresh
    assert rate_to_set(500, "500", "500") is None


def test_a_rate_that_is_not_ours_is_never_replaced() -> None:
    """Whether it was there first or came later."""
    assert rate_to_set(500, "900", None) is None
    assert rate_to_set(500, "900", "700") is None
    assert left(FOLLOWER_RATE, "900", "500", None) == "900"


def test_nothing_is_written_where_nothing_of_ours_stands() -> None:
    """The lease goes alone then."""
    lease = AppliedThrottle(
        Entity("topics/t"), {FOLLOWER_RATE: "5"}, {FOLLOWER_RATE: None}, ZkVersion(0)
    )
    assert settings_without_ours(lease, EntityConfig({"x": "y"}, ZkVersion(1))) is None
    assert settings_without_ours(lease, EntityConfig({}, None)) is None
