"""
What forbids being the controller here: enabled features and a migration to KRaft.

``/feature`` is enabled from inter-broker protocol 2.7 on (``FeatureZNode``); ``/migration`` names a
KRaft controller while one is taking over (``MigrationZNode``). What cannot be understood forbids as
well.
"""

from __future__ import annotations

from controller.znodes.json_documents import excerpt, is_int, read_document

_NO_CONTROLLER = -1


def decode_feature(data: bytes) -> bool | str:
    """Decode whether the feature versioning system is enabled."""
    document = read_document(data)
    if isinstance(document, str):
        return document
    status = document.get("status")
    if not is_int(status, 0, 1):
        return f"status {excerpt(status)} is not known"
    return status == 1


def decode_migration(data: bytes) -> str | None:
    """Return why ``/migration`` forbids a claim, None when it does not."""
    document = read_document(data)
    if isinstance(document, str):
        return f"cannot be understood: {document}"
    controller = document.get("kraft_controller_id", _NO_CONTROLLER)
    if not is_int(controller, low=_NO_CONTROLLER):
        return f"cannot be understood: kraft_controller_id is {excerpt(controller)}"
    if controller == _NO_CONTROLLER:
        return None
    return f"KRaft controller {controller} is in charge of a migration"
