"""Clients of a gateway that tests/clients/python.sh has started, and servers that fail on purpose."""

import os
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from triskele import Client
from triskele.v1 import memory_pb2, memory_pb2_grpc, recall_pb2, recall_pb2_grpc


@pytest.fixture(scope="session")
def address() -> str:
    return os.environ["TRISKELE_ADDRESS"]


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as made:
        yield made


@pytest.fixture
def namespace() -> str:
    return f"python/{uuid.uuid4().hex}"


class Server(recall_pb2_grpc.RecallServiceServicer, memory_pb2_grpc.MemoryServiceServicer):
    """A gateway that fails as often as it is told, and keeps what it was called with."""

    def __init__(self) -> None:
        self.failures = 0
        self.calls: list[tuple[str, dict[str, Any], float]] = []
        self.hold: Callable[[], object] = lambda: None
        self.indexes: list[recall_pb2.RecallServiceGetIndexStatusResponse] = []

    def _meet(self, name: str, context: grpc.ServicerContext) -> None:
        self.calls.append((name, dict(context.invocation_metadata()), context.time_remaining()))
        self.hold()
        if self.failures > 0:
            self.failures -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "not yet")

    def Recall(self, request: Any, context: grpc.ServicerContext) -> recall_pb2.RecallResponse:
        self._meet("Recall", context)
        return recall_pb2.RecallResponse()

    def GetIndexStatus(self, request: Any, context: grpc.ServicerContext) -> recall_pb2.RecallServiceGetIndexStatusResponse:
        self._meet("GetIndexStatus", context)
        return self.indexes.pop(0) if len(self.indexes) > 1 else self.indexes[0]

    def Remember(self, request: Any, context: grpc.ServicerContext) -> memory_pb2.RememberResponse:
        self._meet("Remember", context)
        return memory_pb2.RememberResponse()


@pytest.fixture
def server() -> Iterator[tuple[Server, str]]:
    fake = Server()
    made = grpc.server(futures.ThreadPoolExecutor(4))
    recall_pb2_grpc.add_RecallServiceServicer_to_server(fake, made)
    memory_pb2_grpc.add_MemoryServiceServicer_to_server(fake, made)
    port = made.add_insecure_port("127.0.0.1:0")
    made.start()
    yield fake, f"127.0.0.1:{port}"
    made.stop(None).wait()
