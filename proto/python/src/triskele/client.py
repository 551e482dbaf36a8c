"""The client for programs without asyncio."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc

from triskele import _channel
from triskele._requests import batches, build, texts
from triskele.errors import DeadlineExceeded, Error, Unavailable, from_grpc
from triskele.v1 import memory_pb2, memory_pb2_grpc, recall_pb2, recall_pb2_grpc

T = TypeVar("T")


class Client:
    """Calls a gateway. It may be shared by threads; close it when done.

    The target has gRPC's name syntax: `host:port`, or `dns:///host:port` for all addresses of a name. The constructor does not wait for the
    gateway: while it is down, calls raise Unavailable. `tls` is True for well-known authorities, the PEM of others as bytes, or channel
    credentials of gRPC. A token needs TLS unless the gateway is on this machine. `timeout` bounds each call without one of its own, in
    seconds. `options` are further channel arguments of gRPC.

    `recalls` and `memories` are the generated stubs, for everything else.
    """

    def __init__(
        self,
        target: str = "127.0.0.1:7400",
        *,
        token: str | None = None,
        tls: bool | bytes | grpc.ChannelCredentials = False,
        timeout: float = _channel.DEFAULT_TIMEOUT,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        secure = _channel.credentials(target, token, tls)
        options = [*_channel.OPTIONS, *options]
        self._channel = grpc.secure_channel(target, secure, options) if secure else grpc.insecure_channel(target, options)
        self._token = token
        self._timeout = timeout
        self.recalls = recall_pb2_grpc.RecallServiceStub(self._channel)
        self.memories = memory_pb2_grpc.MemoryServiceStub(self._channel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls that run end with an error."""
        self._channel.close()

    def recall(
        self, namespace: str | Iterable[str], query: str = "", *, timeout: float | None = None, **fields: Any
    ) -> recall_pb2.RecallResponse:
        """Returns the memories that matter for a query, best first. The timeout is the budget: legs that need longer are left out.

        The fields are those of RecallRequest, for instance `limit=3, explain=True, filter={"tags_any": ["release"]}`. No hits mean that the
        search found nothing. Unavailable means that no leg answered, or that the gateway cannot be reached.
        """
        request = build(recall_pb2.RecallRequest, namespaces=texts(namespace), query=query, **fields)
        return self._call(self.recalls.Recall, request, timeout)

    def remember(self, namespace: str, content: str, *, timeout: float | None = None, **memory: Any) -> memory_pb2.RememberResponse:
        """Stores a memory and returns it as stored. With an idempotency key it is stored once, however often the call is repeated.

        A recall with `at_least=[response.revision_token]` knows of this write.
        """
        request = build(memory_pb2.RememberRequest, memory={"namespace": namespace, "content": content, **memory})
        return self._call(self.memories.Remember, request, timeout)

    def update(
        self, namespace: str, id: str, *, expected_revision: int = 0, timeout: float | None = None, **changes: Any
    ) -> memory_pb2.UpdateResponse:
        """Changes these fields of a memory. It raises Aborted if an expected revision is not the current one."""
        request = build(
            memory_pb2.UpdateRequest,
            namespace=namespace,
            id=id,
            memory=changes,
            update_mask={"paths": list(changes)},
            expected_revision=expected_revision,
        )
        return self._call(self.memories.Update, request, timeout)

    def supersede(
        self, namespace: str, id: str, content: str, *, expected_revision: int = 0, timeout: float | None = None, **replacement: Any
    ) -> memory_pb2.SupersedeResponse:
        """Stores a replacement of a memory. Recall leaves the old one out from then on."""
        request = build(
            memory_pb2.SupersedeRequest,
            id=id,
            replacement={"namespace": namespace, "content": content, **replacement},
            expected_revision=expected_revision,
        )
        return self._call(self.memories.Supersede, request, timeout)

    def forget(self, namespace: str, ids: str | Iterable[str], *, timeout: float | None = None) -> int:
        """Removes memories and everything derived from them. Returns how many there were."""
        return self._call(self.memories.Forget, build(memory_pb2.ForgetRequest, namespace=namespace, ids=texts(ids)), timeout).forgotten

    def get(self, namespace: str, ids: str | Iterable[str], *, timeout: float | None = None) -> Sequence[memory_pb2.Memory]:
        """Returns memories by id, in this order, without those that do not exist."""
        return self._call(self.memories.Get, build(memory_pb2.GetRequest, namespace=namespace, ids=texts(ids)), timeout).memories

    def list(self, namespace: str, *, timeout: float | None = None, **fields: Any) -> Iterator[memory_pb2.Memory]:
        """Yields the memories of a namespace, newest first. The fields are those of ListRequest. The timeout bounds each page."""
        request = build(memory_pb2.ListRequest, namespace=namespace, **fields)
        yield from self._pages(self.memories.List, request, "memories", timeout)

    def import_(
        self,
        memories: Iterable[memory_pb2.Memory | Mapping[str, Any]],
        *,
        dry_run: bool = False,
        return_ids: bool = False,
        timeout: float | None = None,
    ) -> memory_pb2.ImportResponse:
        """Stores memories in batches, each in one transaction. Those that are stored already are counted as unchanged.

        So a broken import can be run again. Without a timeout, each batch has two minutes.
        """
        total, sent = memory_pb2.ImportResponse(), 0
        end = None if timeout is None else time.monotonic() + timeout
        for batch in batches(memories):
            request = memory_pb2.ImportRequest(memories=batch, dry_run=dry_run, return_ids=return_ids)
            left = _channel.IMPORT_TIMEOUT if end is None else end - time.monotonic()
            try:
                done = self._call(self.memories.Import, iter([request]), left)
            except Error as err:
                raise err.after(sent) from err.__cause__
            sent += len(batch)
            total.stored += done.stored
            total.unchanged += done.unchanged
            total.ids.extend(done.ids)
            total.revision_token = done.revision_token or total.revision_token
        return total

    def export(self, namespace: str, *, timeout: float | None = None) -> Iterator[memory_pb2.Memory]:
        """Yields every memory of a namespace, oldest first, with superseded and expired ones. Without a timeout its time is not bounded.

        The memories before an error are not all.
        """
        request = build(memory_pb2.ExportRequest, namespace=namespace)
        stream = self.memories.Export(request, timeout=timeout, metadata=_channel.metadata(self._token))
        try:
            for response in stream:
                yield from response.memories
        except grpc.RpcError as err:
            raise from_grpc(err) from err
        finally:
            stream.cancel()

    def namespace(self, namespace: str, *, statistics: bool = False, timeout: float | None = None) -> memory_pb2.GetNamespaceResponse:
        """Returns what is known of a namespace. It raises NotFound if nothing was ever stored there."""
        return self._call(
            self.memories.GetNamespace, build(memory_pb2.GetNamespaceRequest, namespace=namespace, statistics=statistics), timeout
        )

    def namespaces(self, prefix: str = "", *, timeout: float | None = None) -> Iterator[memory_pb2.ListNamespacesResponse.Namespace]:
        """Yields the namespaces by name. The timeout bounds each page."""
        yield from self._pages(self.memories.ListNamespaces, build(memory_pb2.ListNamespacesRequest, prefix=prefix), "namespaces", timeout)

    def rename_namespace(self, namespace: str, new_name: str, *, timeout: float | None = None) -> int:
        """Renames a namespace with everything in it. Returns how many memories moved."""
        return self._call(
            self.memories.RenameNamespace, build(memory_pb2.RenameNamespaceRequest, namespace=namespace, new_name=new_name), timeout
        ).memories

    def delete_namespace(self, namespace: str, *, timeout: float | None = None) -> int:
        """Forgets a namespace with everything in it. Returns how many memories there were."""
        return self._call(self.memories.DeleteNamespace, build(memory_pb2.DeleteNamespaceRequest, namespace=namespace), timeout).forgotten

    def wait_indexed(self, namespace: str, *, timeout: float = 60.0) -> None:
        """Returns when no index of a namespace has anything pending.

        It raises DeadlineExceeded if that takes longer, Unavailable if an index cannot be asked until then, and Error if one has given up on
        a memory.
        """
        end, pause = time.monotonic() + timeout, 0.01
        request = build(recall_pb2.RecallServiceGetIndexStatusRequest, namespace=namespace)
        behind = DeadlineExceeded(f"the indexes of {namespace} have not caught up")
        late: Error = behind
        while True:
            try:
                if indexed(self._call(self.recalls.GetIndexStatus, request, min(self._timeout, end - time.monotonic())), namespace):
                    return
                late = behind
            except DeadlineExceeded:
                pass  # the last call may have too little time to say why
            except Unavailable as err:
                late = err
            if time.monotonic() + pause >= end:
                raise late
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _call(self, method: Callable[..., T], request: object, timeout: float | None) -> T:
        try:
            return method(request, timeout=self._timeout if timeout is None else timeout, metadata=_channel.metadata(self._token))
        except grpc.RpcError as err:
            raise from_grpc(err) from err

    def _pages(self, method: Callable[..., Any], request: Any, items: str, timeout: float | None) -> Iterator[Any]:
        while True:
            page = self._call(method, request, timeout)
            yield from getattr(page, items)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token


def indexed(status: recall_pb2.RecallServiceGetIndexStatusResponse, namespace: str) -> bool:
    """Reports whether no index has anything pending. It raises Unavailable if one cannot be asked, and Error if one has given up."""
    for leg in status.legs:
        if leg.error:
            raise Unavailable(f"the index of the {leg.leg} leg cannot be asked: {leg.error}")
    if any(leg.status.pending for leg in status.legs):
        return False
    dead = max((leg.status.dead for leg in status.legs), default=0)
    if dead:
        raise Error(f"{dead} memories of namespace {namespace} could not be indexed; the server's log has the cause")
    return True
