"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import grpc
from grpc import aio

from triskele import _channel
from triskele._requests import batches, build, texts
from triskele.client import indexed
from triskele.errors import DeadlineExceeded, Error, Unavailable, from_grpc
from triskele.v1 import memory_pb2, memory_pb2_grpc, recall_pb2, recall_pb2_grpc

T = TypeVar("T")


class AsyncClient:
    """Is as Client, for asyncio: make it in a coroutine, await its methods, and loop over lists with `async for`."""

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
        self._channel = aio.secure_channel(target, secure, options) if secure else aio.insecure_channel(target, options)
        self._token = token
        self._timeout = timeout
        self.recalls = recall_pb2_grpc.RecallServiceStub(self._channel)
        self.memories = memory_pb2_grpc.MemoryServiceStub(self._channel)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Is as Client.close."""
        await self._channel.close()

    async def recall(
        self, namespace: str | Iterable[str], query: str = "", *, timeout: float | None = None, **fields: Any
    ) -> recall_pb2.RecallResponse:
        """Is as Client.recall."""
        request = build(recall_pb2.RecallRequest, namespaces=texts(namespace), query=query, **fields)
        return await self._call(self.recalls.Recall, request, timeout)

    async def remember(self, namespace: str, content: str, *, timeout: float | None = None, **memory: Any) -> memory_pb2.RememberResponse:
        """Is as Client.remember."""
        request = build(memory_pb2.RememberRequest, memory={"namespace": namespace, "content": content, **memory})
        return await self._call(self.memories.Remember, request, timeout)

    async def update(
        self, namespace: str, id: str, *, expected_revision: int = 0, timeout: float | None = None, **changes: Any
    ) -> memory_pb2.UpdateResponse:
        """Is as Client.update."""
        request = build(
            memory_pb2.UpdateRequest,
            namespace=namespace,
            id=id,
            memory=changes,
            update_mask={"paths": list(changes)},
            expected_revision=expected_revision,
        )
        return await self._call(self.memories.Update, request, timeout)

    async def supersede(
        self, namespace: str, id: str, content: str, *, expected_revision: int = 0, timeout: float | None = None, **replacement: Any
    ) -> memory_pb2.SupersedeResponse:
        """Is as Client.supersede."""
        request = build(
            memory_pb2.SupersedeRequest,
            id=id,
            replacement={"namespace": namespace, "content": content, **replacement},
            expected_revision=expected_revision,
        )
        return await self._call(self.memories.Supersede, request, timeout)

    async def forget(self, namespace: str, ids: str | Iterable[str], *, timeout: float | None = None) -> int:
        """Is as Client.forget."""
        return (
            await self._call(self.memories.Forget, build(memory_pb2.ForgetRequest, namespace=namespace, ids=texts(ids)), timeout)
        ).forgotten

    async def get(self, namespace: str, ids: str | Iterable[str], *, timeout: float | None = None) -> Sequence[memory_pb2.Memory]:
        """Is as Client.get."""
        return (await self._call(self.memories.Get, build(memory_pb2.GetRequest, namespace=namespace, ids=texts(ids)), timeout)).memories

    async def list(self, namespace: str, *, timeout: float | None = None, **fields: Any) -> AsyncIterator[memory_pb2.Memory]:
        """Is as Client.list."""
        request = build(memory_pb2.ListRequest, namespace=namespace, **fields)
        async for item in self._pages(self.memories.List, request, "memories", timeout):
            yield item

    async def import_(
        self,
        memories: Iterable[memory_pb2.Memory | Mapping[str, Any]],
        *,
        dry_run: bool = False,
        return_ids: bool = False,
        timeout: float | None = None,
    ) -> memory_pb2.ImportResponse:
        """Is as Client.import_."""
        total, sent = memory_pb2.ImportResponse(), 0
        end = None if timeout is None else time.monotonic() + timeout
        for batch in batches(memories):
            request = memory_pb2.ImportRequest(memories=batch, dry_run=dry_run, return_ids=return_ids)
            left = _channel.IMPORT_TIMEOUT if end is None else end - time.monotonic()
            try:
                done = await self._call(self.memories.Import, iter([request]), left)
            except Error as err:
                raise err.after(sent) from err.__cause__
            sent += len(batch)
            total.stored += done.stored
            total.unchanged += done.unchanged
            total.ids.extend(done.ids)
            total.revision_token = done.revision_token or total.revision_token
        return total

    async def export(self, namespace: str, *, timeout: float | None = None) -> AsyncIterator[memory_pb2.Memory]:
        """Is as Client.export."""
        request = build(memory_pb2.ExportRequest, namespace=namespace)
        stream = self.memories.Export(request, timeout=timeout, metadata=_channel.metadata(self._token))
        try:
            async for response in stream:
                for memory in response.memories:
                    yield memory
        except grpc.RpcError as err:
            raise from_grpc(err) from err
        finally:
            stream.cancel()

    async def namespace(self, namespace: str, *, statistics: bool = False, timeout: float | None = None) -> memory_pb2.GetNamespaceResponse:
        """Is as Client.namespace."""
        return await self._call(
            self.memories.GetNamespace, build(memory_pb2.GetNamespaceRequest, namespace=namespace, statistics=statistics), timeout
        )

    async def namespaces(
        self, prefix: str = "", *, timeout: float | None = None
    ) -> AsyncIterator[memory_pb2.ListNamespacesResponse.Namespace]:
        """Is as Client.namespaces."""
        async for item in self._pages(
            self.memories.ListNamespaces, build(memory_pb2.ListNamespacesRequest, prefix=prefix), "namespaces", timeout
        ):
            yield item

    async def rename_namespace(self, namespace: str, new_name: str, *, timeout: float | None = None) -> int:
        """Is as Client.rename_namespace."""
        return (
            await self._call(
                self.memories.RenameNamespace, build(memory_pb2.RenameNamespaceRequest, namespace=namespace, new_name=new_name), timeout
            )
        ).memories

    async def delete_namespace(self, namespace: str, *, timeout: float | None = None) -> int:
        """Is as Client.delete_namespace."""
        return (
            await self._call(self.memories.DeleteNamespace, build(memory_pb2.DeleteNamespaceRequest, namespace=namespace), timeout)
        ).forgotten

    async def wait_indexed(self, namespace: str, *, timeout: float = 60.0) -> None:
        """Is as Client.wait_indexed."""
        end, pause = time.monotonic() + timeout, 0.01
        request = build(recall_pb2.RecallServiceGetIndexStatusRequest, namespace=namespace)
        behind = DeadlineExceeded(f"the indexes of {namespace} have not caught up")
        late: Error = behind
        while True:
            try:
                if indexed(await self._call(self.recalls.GetIndexStatus, request, min(self._timeout, end - time.monotonic())), namespace):
                    return
                late = behind
            except DeadlineExceeded:
                pass  # the last call may have too little time to say why
            except Unavailable as err:
                late = err
            if time.monotonic() + pause >= end:
                raise late
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.5)

    async def _call(self, method: Callable[..., Awaitable[T]], request: object, timeout: float | None) -> T:
        try:
            return await method(request, timeout=self._timeout if timeout is None else timeout, metadata=_channel.metadata(self._token))
        except grpc.RpcError as err:
            raise from_grpc(err) from err

    async def _pages(self, method: Callable[..., Any], request: Any, items: str, timeout: float | None) -> AsyncIterator[Any]:
        while True:
            page = await self._call(method, request, timeout)
            for item in getattr(page, items):
                yield item
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token
