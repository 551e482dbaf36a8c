"""A retriever for LlamaIndex. It needs the extra `llamaindex`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from triskele._requests import facts, recalled
from triskele.client import Client


class TriskeleRetriever(BaseRetriever):
    """Recalls memories as nodes, best first. `fields` are those of RecallRequest, and `timeout` is the budget in seconds."""

    def __init__(self, client: Client, namespace: str | Iterable[str], *, timeout: float | None = None, **fields: Any) -> None:
        super().__init__()
        self._client = client
        self._namespace = namespace
        self._timeout = timeout
        self._fields = fields

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = recalled(self._client, self._namespace, query_bundle.query_str, self._timeout, self._fields)
        return [NodeWithScore(node=TextNode(id_=hit.id, text=hit.memory.content, metadata=facts(hit)), score=hit.score) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
