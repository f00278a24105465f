"""
Where the leading daemon answers: the content of each candidate's node under ``/reassigner/leader``.

The order of the candidates is the election's business. What cannot be read is no address; there is
nobody to whom a reason would be of use.
"""

from __future__ import annotations

from controller.znodes.json_documents import is_text, read_document, version_problem, write_document


def decode_leader(data: bytes) -> str | None:
    """Decode the ``host:port`` of a candidate's HTTP server."""
    document = read_document(data)
    if isinstance(document, str) or version_problem(document, (1,)) is not None:
        return None
    http = document.get("http")
    return http if is_text(http) and http else None


def encode_leader(http: str) -> bytes:
    """Encode the ``host:port`` of our HTTP server."""
    return write_document({"version": 1, "http": http})
