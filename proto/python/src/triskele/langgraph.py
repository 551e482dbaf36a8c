"""A store for LangGraph. It needs the extra `langgraph`.

The namespace ("users", "ada") is the namespace users/ada of Triskele, so its labels are of a-z, 0-9, dot, dash and underscore. The text of
an item's memory is its value as JSON, and that is searched. Memories that others stored there are items too, with their text as `content`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timezone
from itertools import islice
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from triskele.client import Client
from triskele.errors import AlreadyExists, NotFound
from triskele.v1 import memory_pb2

_SOURCE = "langgraph:"
_KEYS = uuid.UUID("7d9c2f2e-52a8-4c1b-9d53-3f0a8f1f6a3e")  # of ids that are made of keys
_NAMESPACES = 16  # of a recall, at most
_HITS = 1000  # of a recall, at most
_SCALARS = 64  # of the metadata of a memory, at most
_BYTES = 15_000  # of the metadata as JSON, at most: the gateway accepts 16 KiB, and writes some numbers longer
_MANY = {"langgraph: many": True}  # the metadata of an item that has more: a search filters it here
_FILTERED = 128  # bytes of a text or a key that the gateway filters by, at most


class TriskeleStore(BaseStore):
    """Keeps the items of agents as memories.

    `put` ignores `index`: the whole value is searched. A search of a namespace covers those below it, and for that the token needs the
    scope admin. Items have no time to live. The async methods run in threads.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return [self._do(op) for op in ops]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _do(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return next((_item(m) for m in self._client.get("/".join(op.namespace), _id(op.namespace, op.key))), None)
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, SearchOp):
            return list(islice(self._search(op), op.offset, op.offset + op.limit))
        if isinstance(op, ListNamespacesOp):
            return self._names(op)
        raise ValueError(f"{type(op).__name__}: no such operation")

    def _put(self, op: PutOp) -> None:
        namespace, id = "/".join(op.namespace), _id(op.namespace, op.key)
        if op.value is None:
            self._client.forget(namespace, id)
            return
        scalars = _scalars(op.value)
        fields: dict[str, Any] = {
            "content": json.dumps(op.value, ensure_ascii=False),
            "metadata": scalars if len(scalars) <= _SCALARS and _bytes(scalars) <= _BYTES else _MANY,
            "source": _SOURCE + op.key,
        }
        try:
            self._client.update(namespace, id, **fields)
        except NotFound:
            try:
                self._client.import_([{"namespace": namespace, "id": id, **fields}])
            except AlreadyExists:  # another thread has put it since
                self._client.update(namespace, id, **fields)

    def _search(self, op: SearchOp) -> Iterator[SearchItem]:
        names = self._below(op.namespace_prefix)
        plain = _scalars(op.filter or {})
        asked: list[dict[str, Any]] = [{}]
        if 0 < len(plain) <= 16:
            asked = [{"filter": {"metadata": metadata}} for metadata in (plain, _MANY)]
        if op.query:
            # Without conditions that are checked here, the best of the recall are the best.
            limit = min(op.offset + op.limit, _HITS) if len(plain) == len(op.filter or {}) else _HITS
            found: list[SearchItem] = []
            for start in range(0, len(names), _NAMESPACES):
                for most, fields in zip((limit, _HITS), asked, strict=False):
                    hits = self._client.recall(names[start : start + _NAMESPACES], op.query, limit=most, **fields).hits
                    found += (_found(hit.memory, hit.score) for hit in hits if hit.HasField("memory"))
            found.sort(key=lambda item: -(item.score or 0))
            yield from (item for item in found if _matches(item.value, op.filter))
            return
        for name in names:
            for fields in asked:
                for memory in self._client.list(name, **fields):
                    item = _found(memory, None)
                    if _matches(item.value, op.filter):
                        yield item

    def _below(self, prefix: tuple[str, ...]) -> list[str]:
        """Returns the namespaces that begin with these labels."""
        path = "/".join(prefix)
        return [n.namespace for n in self._client.namespaces(path) if not path or f"{n.namespace}/".startswith(f"{path}/")]

    def _names(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found: dict[tuple[str, ...], None] = {}
        for entry in self._client.namespaces():
            labels = tuple(entry.namespace.split("/"))
            if all(_fits(labels, condition) for condition in op.match_conditions or ()):
                found[labels[: op.max_depth]] = None
        return list(found)[op.offset : op.offset + op.limit]


def _id(namespace: tuple[str, ...], key: str) -> str:
    """Returns the id of a key: the key itself if it is an id, so that memories of others can be had."""
    try:
        return str(uuid.UUID(key))
    except ValueError:
        return str(uuid.uuid5(_KEYS, "/".join(namespace) + "\n" + key))


def _scalars(value: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what of a value, or of a filter, the gateway can filter by."""
    return {
        key: item
        for key, item in value.items()
        if key and _short(key) and (_short(item) or isinstance(item, (bool, int, float)) and abs(item) <= sys.float_info.max)
    }


def _short(text: Any) -> bool:
    return isinstance(text, str) and "\0" not in text and len(text.encode(errors="replace")) <= _FILTERED


def _bytes(scalars: Mapping[str, Any]) -> int:
    text = json.dumps(scalars)
    return len(text) + 5 * sum(map(text.count, "<>&"))  # the gateway escapes these


def _parts(memory: memory_pb2.Memory) -> dict[str, Any]:
    mine = memory.source.startswith(_SOURCE)
    return {
        "value": _value(memory.content, mine),
        "key": memory.source.removeprefix(_SOURCE) if mine else memory.id,
        "namespace": tuple(memory.namespace.split("/")),
        "created_at": memory.created_at.ToDatetime(timezone.utc),
        "updated_at": memory.updated_at.ToDatetime(timezone.utc),
    }


def _value(text: str, mine: bool) -> dict[str, Any]:
    """Returns what was put, unless others stored the text or have changed it to something else since."""
    try:
        value = json.loads(text) if mine else None
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"content": text}


def _item(memory: memory_pb2.Memory) -> Item:
    return Item(**_parts(memory))


def _found(memory: memory_pb2.Memory, score: float | None) -> SearchItem:
    return SearchItem(**_parts(memory), score=score)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda a, b: a == b,
    "$ne": lambda a, b: a != b,
    "$gt": lambda a, b: a is not None and a > b,
    "$gte": lambda a, b: a is not None and a >= b,
    "$lt": lambda a, b: a is not None and a < b,
    "$lte": lambda a, b: a is not None and a <= b,
}


def _matches(value: Mapping[str, Any], conditions: Mapping[str, Any] | None) -> bool:
    for key, wanted in (conditions or {}).items():
        if not (isinstance(wanted, Mapping) and any(name.startswith("$") for name in wanted)):
            wanted = {"$eq": wanted}
        for name, bound in wanted.items():
            if name not in _OPERATORS:
                raise ValueError(f"{name}: no such operator")
            if not _OPERATORS[name](value.get(key), bound):
                return False
    return True


def _fits(labels: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    part = labels[: len(path)] if condition.match_type == "prefix" else labels[-len(path) :]
    return len(part) == len(path) and all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
