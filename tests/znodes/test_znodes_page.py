"""Every example in ``docs/reference/znodes.md`` survives decoding and encoding by its codec."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from controller.core.model import RequestId, ZkVersion, Zxid
from controller.znodes import (
    brokers_and_controller,
    cancellations,
    entity_configs,
    histories,
    operator_controls,
    paths,
    plans,
    reassignments,
)

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "znodes.md").read_text()
SECTIONS: Final = dict(
    re.findall(r"^### `(/\S+)`\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
)
HERE: Final = (ZkVersion(1), Zxid(2))


def rewritten_plan(data: bytes, path: str) -> bytes:
    """Read and write a plan."""
    del path
    plan = plans.decode_legacy_plan(data, *HERE)
    assert (plan.unreadable, plan.refused) == (None, ())
    return plans.encode_legacy_plan(plan.entries)


def rewritten_request(data: bytes, path: str) -> bytes:
    """Read and write a request."""
    read = plans.decode_submission(path.rpartition("/")[2], data, *HERE, created_ms=0)
    assert (read.unreadable, read.refused, read.warnings) == (None, (), ())
    return plans.encode_submission(read.entries, read.options)


def rewritten_cancellation(data: bytes, path: str) -> bytes:
    """Read and write a cancellation."""
    del path
    read = cancellations.decode_cancellation(data, *HERE, created_ms=0)
    assert read.unreadable is None
    return cancellations.encode_cancellation(read)


def rewritten_kill_switch(data: bytes, path: str) -> bytes:
    """Read and write the kill switch."""
    del path
    return cancellations.encode_kill_switch(cancellations.decode_kill_switch(data, 0))


def rewritten_pauses(data: bytes, path: str) -> bytes:
    """Read and write what stands still."""
    del path
    read = operator_controls.decode_pauses(data)
    assert not isinstance(read, str), read
    return operator_controls.encode_pauses(read)


def rewritten_limits(data: bytes, path: str) -> bytes:
    """Read and write limits."""
    del path
    read = operator_controls.decode_limits(data)
    assert not isinstance(read, str), read
    return operator_controls.encode_limits(read)


def rewritten_throttle(data: bytes, path: str) -> bytes:
    """Read and write the throttle for all."""
    del path
    read = operator_controls.decode_throttle(data)
    assert not isinstance(read, str), read
    return operator_controls.encode_throttle(read.throttle)


def rewritten_drains(data: bytes, path: str) -> bytes:
    """Read and write the drained brokers."""
    del path
    read = operator_controls.decode_drains(data, *HERE)
    assert not isinstance(read, str), read
    return operator_controls.encode_drains(read)


def rewritten_evacuations(data: bytes, path: str) -> bytes:
    """Read and write evacuations."""
    del path
    read = operator_controls.decode_evacuations(data)
    assert not isinstance(read, str), read
    return operator_controls.encode_evacuations(read)


def rewritten_goal(data: bytes, path: str) -> bytes:
    """Read and write a goal."""
    del path
    read = reassignments.decode_spec(data, ZkVersion(0))
    assert not isinstance(read, str), read
    return reassignments.encode_spec(read)


def rewritten_leader(data: bytes, path: str) -> bytes:
    """Read and write a candidate's address."""
    del path
    read = brokers_and_controller.decode_leader(data)
    assert read is not None
    return brokers_and_controller.encode_leader(read)


def rewritten_lease(data: bytes, path: str) -> bytes:
    """Read and write a throttle of ours."""
    read = entity_configs.decode_applied_throttle(path.rpartition("/")[2], data, ZkVersion(0))
    assert not isinstance(read, str), read
    return entity_configs.encode_applied_throttle(read)


def rewritten_orphan(data: bytes, path: str) -> bytes:
    """Read and write an orphan."""
    broker, name = path.split("/")[-2:]
    read = reassignments.decode_orphan(broker, name, data)
    assert not isinstance(read, str), read
    return reassignments.encode_orphan(read)


def rewritten_summary(data: bytes, path: str) -> bytes:
    """Read and write how a request ended."""
    del path
    read = histories.decode_outcome(data)
    assert not isinstance(read, str), read
    return histories.encode_outcome(read)


def rewritten_part(data: bytes, path: str) -> bytes:
    """Read and write what was asked for."""
    read = histories.decode_part(path.rpartition("/")[2], data)
    assert not isinstance(read, str), read
    return histories.encode_part(read)


def rewritten_accepted(data: bytes, path: str) -> bytes:
    """Read and write a shard of accepted entries; its name counts them."""
    read = histories.decode_accepted(data)
    assert not isinstance(read, str), read
    shard = paths.parse_shard(path.rpartition("/")[2])
    assert shard is not None
    assert (shard.kind, shard.rows) == ("accepted", len(read))
    return histories.encode_accepted(read)


def rewritten_ended(data: bytes, path: str) -> bytes:
    """Read and write a shard of endings; its name counts them."""
    read = histories.decode_ended(RequestId("request_0000000007"), data)
    assert not isinstance(read, str), read
    shard = paths.parse_shard(path.rpartition("/")[2])
    assert shard is not None
    assert (shard.kind, shard.rows) == ("ended", sum(map(len, read)))
    return histories.encode_ended(*read)


CODECS: Final[tuple[tuple[str, Callable[[bytes, str], bytes]], ...]] = (
    (paths.LEGACY_PLAN, rewritten_plan),
    (f"{paths.REQUESTS}/request_\\d{{10}}", rewritten_request),
    (paths.QUEUE, rewritten_plan),
    (paths.CANCEL, rewritten_cancellation),
    (paths.KILL_SWITCH, rewritten_kill_switch),
    (paths.PAUSES, rewritten_pauses),
    (paths.LIMITS, rewritten_limits),
    (paths.THROTTLE, rewritten_throttle),
    (paths.DRAINS, rewritten_drains),
    (paths.EVACUATIONS, rewritten_evacuations),
    (f"{paths.REASSIGNMENTS}/[^/]+/\\d+", rewritten_goal),
    (f"{paths.LEADER}/[^/]+", rewritten_leader),
    (f"{paths.APPLIED_THROTTLES}/[^/]+", rewritten_lease),
    (f"{paths.ORPHANS}/\\d+/[^/]+", rewritten_orphan),
    (f"{paths.OUTCOMES}/[^/]+/{paths.SUMMARY}", rewritten_summary),
    (f"{paths.OUTCOMES}/[^/]+/{paths.PART}[^/]+", rewritten_part),
    (f"{paths.OUTCOMES}/[^/]+/accepted-[^/]+", rewritten_accepted),
    (f"{paths.OUTCOMES}/[^/]+/ended-[^/]+", rewritten_ended),
)
"""The codec of every path that has one."""


@pytest.mark.parametrize(("path", "rewritten"), CODECS, ids=[path for path, _ in CODECS])
def test_the_example_is_what_is_read_and_written(
    path: str, rewritten: Callable[[bytes, str], bytes]
) -> None:
    """Key by key, in that order; each path has one section."""
    ((shown, section),) = ((p, s) for p, s in SECTIONS.items() if re.fullmatch(path, p))
    (example,) = re.findall(r"^```json\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)
    assert json.loads(rewritten(example.encode(), shown)) == json.loads(example)
    assert rewritten(example.encode(), shown).decode() == example


def test_no_section_is_without_a_codec() -> None:
    """A path that is no longer read is not documented."""
    codecs = [path for path, _ in CODECS]
    assert [p for p in SECTIONS if not any(re.fullmatch(c, p) for c in codecs)] == []


def ours() -> set[str]:
    """Return the constants of ``paths`` that are the daemon's or its operators'."""
    return {
        value
        for name, value in vars(paths).items()
        if name.isupper()
        and isinstance(value, str)
        and value.startswith(("/admin/reassign", "/admin/cancel", f"{paths.ROOT}/"))
    }


def test_every_znode_of_ours_has_a_codec() -> None:
    """And so an example on the page; the epoch is a bare number, and controls have three."""
    patterns = [path for path, _ in CODECS]
    without = {path for path in ours() if not any(p.startswith(path) for p in patterns)}
    assert without == {paths.EPOCH}


def test_every_znode_of_ours_is_in_the_table() -> None:
    """By the constants of ``paths``."""
    table = PAGE.partition("## Written by operators")[0]
    documented = table.replace("`/limits`", f"`{paths.LIMITS}`").replace(
        "`/throttle`", f"`{paths.THROTTLE}`"
    )
    assert sorted(path for path in ours() - {paths.CONTROLS} if f"`{path}" not in documented) == []


def test_every_key_of_a_request_is_explained() -> None:
    """The table of options is complete."""
    section = next(s for p, s in SECTIONS.items() if p.startswith(paths.REQUESTS))
    rows = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    explained = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert explained == plans.OPTION_KEYS | {"assignments", "partitions"}
