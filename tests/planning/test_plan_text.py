"""Tests of ``controller.planning.plan_text``: plan files as people have them."""

from __future__ import annotations

import codecs
import json

import pytest

from controller.errors import InvalidInputError
from controller.planning.plan_text import PlanPart, find_plan, find_topics

CURRENT = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}
PROPOSED = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}
GENERATED = (
    f"Current partition replica assignment\n{json.dumps(CURRENT)}\n\n"
    f"Proposed partition reassignment configuration\n{json.dumps(PROPOSED)}\n"
)
EXECUTED = (
    f"Current partition replica assignment\n\n{json.dumps(CURRENT)}\n\n"
    "Save this to use as the --reassignment-json-file option during rollback\n"
    "Successfully started partition reassignment for t-0\n"
)


@pytest.mark.parametrize(
    ("wanted", "expected", "line"),
    [(PlanPart.CURRENT, CURRENT, 2), (PlanPart.PROPOSED, PROPOSED, 5)],
)
def test_the_wanted_plan_is_taken_from_the_output_of_generate(
    wanted: PlanPart, expected: object, line: int
) -> None:
    """A note names the plan and its line."""
    found = find_plan(GENERATED.encode(), wanted)
    assert found.document == expected
    assert found.note == f"the {wanted} of the tool's output was taken (line {line})"


def test_the_output_of_execute_is_the_way_back() -> None:
    """Its only plan is the current assignment; the sentences around it are no part of it."""
    found = find_plan(EXECUTED.encode(), PlanPart.PROPOSED)
    assert found.document == CURRENT
    assert found.note is not None
    assert "current assignment" in found.note


def test_a_proposal_alone_is_not_the_current_assignment() -> None:
    """A snapshot of it would describe a cluster that does not exist."""
    text = GENERATED.partition("\n\n")[2]
    assert find_plan(text.encode(), PlanPart.PROPOSED).document == PROPOSED
    with pytest.raises(InvalidInputError, match="only a proposed assignment"):
        find_plan(text.encode(), PlanPart.CURRENT)


@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("text", [json.dumps(PROPOSED, indent=2), GENERATED])
@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", b""),
        ("utf-8", codecs.BOM_UTF8),
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-16-le", b""),
    ],
)
def test_files_of_any_editor_and_shell_are_read(
    encoding: str, mark: bytes, text: str, *, crlf: bool
) -> None:
    """With a byte order mark or without, and with line ends of Windows."""
    written = text.replace("\n", "\r\n") if crlf else text
    assert find_plan(mark + written.encode(encoding), PlanPart.PROPOSED).document == PROPOSED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("Current partition replica assignment\n", "there is a heading, but no plan below it"),
        (json.dumps(CURRENT) + "\n" + json.dumps(PROPOSED), "2 documents, on lines 1 and 2"),
        (GENERATED + GENERATED, "4 documents, on lines 2 and 5"),
        ('{"partitions": [\n  {"topic": "t",, "partition": 0}\n]}', "line 2, column 17: "),
        ('{"partitions": [\n  {"topic": "t",, "partition": 0}\n]}', '{"topic": "t",, "partit'),
        ('{"partitions": [', "line 1, column 17"),
        ("nonsense", "line 1, column 1: nonsense"),
        (json.dumps(PROPOSED) + "\nand some words", "line 2, column 1: and some words"),
        ('{"partitions": NaN}', "NaN is not JSON"),
        ("[]", "a JSON object was expected, not a list"),
        ("7", "a JSON object was expected, not a single value"),
        ('{"topics": [{"topic": "t"}]}', "--topics-to-move-json-file"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, reason: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(InvalidInputError) as refused:
        find_plan(text.encode(), PlanPart.PROPOSED)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_text_are_refused() -> None:
    """The message names the byte."""
    with pytest.raises(InvalidInputError, match="byte 1 is not UTF-8"):
        find_plan(b'{\xff"', PlanPart.PROPOSED)


def test_a_file_of_topics_is_one_document_and_no_plan() -> None:
    """A plan in its place is named as such."""
    assert find_topics(b'\xef\xbb\xbf{"topics": []}') == {"topics": []}
    with pytest.raises(InvalidInputError, match="this is a plan"):
        find_topics(json.dumps(CURRENT).encode())
    with pytest.raises(InvalidInputError, match="2 documents"):
        find_topics(b"{}{}")
