"""The errors of calls: one class for each code that a caller may want to tell from others."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import grpc
from google.rpc import error_details_pb2, status_pb2


class Violation(NamedTuple):
    """A field that is not as it must be. The field is a path from the request, such as `memory.content`."""

    field: str
    bound: str


class Error(Exception):
    """A call that failed.

    `code` is gRPC's. `violations` are the fields that the call failed for. `retry_after` is the time to wait in seconds, if it is known.
    """

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, violations: tuple[Violation, ...] = (), retry_after: float | None = None) -> None:
        super().__init__(message)
        self.violations = violations
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.code.name}: {self.args[0]}"

    def after(self, sent: int) -> Error:
        """Counts the memories that the error names from the first of an import, so many of which were in earlier batches."""

        def moved(text: str) -> str:
            return re.sub(r"memories\[(\d+)]", lambda found: f"memories[{sent + int(found[1])}]", text)

        self.args = (moved(self.args[0]),)
        self.violations = tuple(Violation(moved(v.field), v.bound) for v in self.violations)
        return self

    @property
    def field(self) -> str:
        """The first field that is not as it must be, or an empty text."""
        return self.violations[0].field if self.violations else ""

    @property
    def bound(self) -> str:
        """What that field must be, or an empty text."""
        return self.violations[0].bound if self.violations else ""


class InvalidArgument(Error):
    """A field is out of its bounds. The client raises it too, for values that it does not send."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(Error):
    """There is no such memory or namespace."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(Error):
    """The idempotency key, id or name was used for something else."""

    code = grpc.StatusCode.ALREADY_EXISTS


class Aborted(Error):
    """The revision has changed, or others wrote for too long. Read again and try again."""

    code = grpc.StatusCode.ABORTED


class FailedPrecondition(Error):
    """The memory or the database is not in a state for this call."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Unauthenticated(Error):
    """The call has no valid token."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(Error):
    """The token does not allow this call in this namespace."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhausted(Error):
    """A limit is reached. The message says which."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unavailable(Error):
    """The gateway cannot be reached, or no leg answered."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(Error):
    """The deadline passed. A write may have taken place."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


_CLASSES = {kind.code: kind for kind in Error.__subclasses__()}


def invalid(field: str, bound: str) -> InvalidArgument:
    """Returns the error for a value that is not sent, in the words of the gateway's own."""
    return InvalidArgument(f"{field}: {bound}", (Violation(field, bound),))


def from_grpc(err: Any) -> Error:
    """Returns gRPC's error as one of this package."""
    status = status_pb2.Status()
    for key, value in err.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status.ParseFromString(value)
    violations: list[Violation] = []
    retry_after = None
    for detail in status.details:
        request, retry = error_details_pb2.BadRequest(), error_details_pb2.RetryInfo()
        if detail.Unpack(request):
            violations += (Violation(v.field, v.description) for v in request.field_violations)
        elif detail.Unpack(retry):
            retry_after = retry.retry_delay.ToNanoseconds() / 1e9
    made = _CLASSES.get(err.code(), Error)(err.details() or "the call failed", tuple(violations), retry_after)
    made.code = err.code()
    return made
