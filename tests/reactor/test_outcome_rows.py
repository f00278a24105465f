"""The estimate of the size of a row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.core.model import OutcomeKind, PartitionOutcome, Refusal, RefusalReason, RequestId
from controller.core.requests.submissions import AcceptedEntry
from controller.reactor.outcome_rows import Row, row_size
from controller.znodes.histories import accepted_row, ending_row, refusal_row
from controller.znodes.json_documents import write_document
from tests.znodes.strategies import PARTITIONS, REPLICAS, WORDS

R = RequestId("request_0000000001")
TEXTS = WORDS | st.text(max_size=20).filter(str.isascii) | st.just('"\\' * 20)
ROWS = st.one_of(
    st.builds(AcceptedEntry, PARTITIONS, st.none() | REPLICAS, REPLICAS),
    st.builds(PartitionOutcome, st.just(R), PARTITIONS, st.sampled_from(OutcomeKind), TEXTS),
    st.builds(
        Refusal,
        st.just(R),
        TEXTS,
        st.sampled_from(RefusalReason),
        TEXTS,
        st.none() | PARTITIONS,
        st.integers(0, 2**31 - 1),
    ),
)


def written(row: Row) -> int:
    """Return the bytes of a row as it is written, with a comma."""
    match row:
        case AcceptedEntry():
            document: object = accepted_row(row)
        case PartitionOutcome():
            document = ending_row(row)
        case Refusal():
            document = refusal_row(row)
    return len(write_document({"": document})) - len('{"":}') + 1


@given(ROWS)
def test_a_row_takes_no_more_than_was_reckoned(row: Row) -> None:
    """A shard that grew beyond a znode's size could never be written."""
    assert written(row) <= row_size(row)
