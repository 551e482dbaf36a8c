"""A retriever for LangChain. It needs the extra `langchain`."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from triskele._requests import facts, recalled
from triskele.client import Client


class TriskeleRetriever(BaseRetriever):
    """Recalls memories as documents, best first. `fields` are those of RecallRequest, and `timeout` is the budget in seconds."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Client
    namespace: str | list[str]
    timeout: float | None = None
    fields: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        hits = recalled(self.client, self.namespace, query, self.timeout, self.fields)
        return [Document(id=hit.id, page_content=hit.memory.content, metadata=facts(hit)) for hit in hits]
