"""Calls a Triskele gateway from Python.

`Client` and `AsyncClient` have a method for each usual thing: recall, remember, list, import, export. Further keyword arguments of a
method are fields of its request or memory, by the names of the contract: numbers, text, lists, `datetime`, `timedelta`, and
dictionaries for messages. Answers are the messages of `triskele.v1`.

Every call has a deadline. It is the budget of a recall: a leg that needs longer is left out, and the answer says so.
"""

from triskele.aio import AsyncClient
from triskele.client import Client
from triskele.errors import (
    Aborted,
    AlreadyExists,
    DeadlineExceeded,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Violation,
)

__all__ = [
    "Aborted",
    "AlreadyExists",
    "AsyncClient",
    "Client",
    "DeadlineExceeded",
    "Error",
    "FailedPrecondition",
    "InvalidArgument",
    "NotFound",
    "PermissionDenied",
    "ResourceExhausted",
    "Unauthenticated",
    "Unavailable",
    "Violation",
]
