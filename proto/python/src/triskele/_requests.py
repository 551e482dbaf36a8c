"""Makes requests of keyword arguments, and refuses values that no gateway accepts before they are sent.

The bounds of texts come from the contract. Everything else is checked by the gateway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from google.protobuf import json_format, struct_pb2
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from triskele._bounds import MAX_BYTES
from triskele.errors import InvalidArgument, invalid
from triskele.v1 import memory_pb2, recall_pb2

M = TypeVar("M", bound=Message)

# The gateway accepts 1,000 memories and 16 MiB in a message of an import, and 1 MiB for a single memory.
BATCH = 200
BATCH_BYTES = 8 << 20
MEMORY_BYTES = 1 << 20


def build(kind: type[M], /, **fields: Any) -> M:
    """Returns a message of these fields. It raises InvalidArgument if a text is binary or too long."""
    _refuse_binary(fields, "")
    message = _message(kind, fields, "")
    _check(message, "")
    return message


def batches(memories: Iterable[memory_pb2.Memory | Mapping[str, Any]]) -> Iterator[list[memory_pb2.Memory]]:
    """Yields memories in groups that fit a message of an import."""
    batch: list[memory_pb2.Memory] = []
    size = 0
    for number, given in enumerate(memories):
        path = f"memories[{number}]"
        if isinstance(given, memory_pb2.Memory):
            memory = given
        else:
            _refuse_binary(given, path)
            memory = _message(memory_pb2.Memory, given, path)
        _check(memory, path)
        if batch and (len(batch) == BATCH or size + memory.ByteSize() > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(memory)
        size += memory.ByteSize()
    if batch:
        yield batch


def texts(given: str | Iterable[str]) -> list[str]:
    """Returns one text or several as a list."""
    return [given] if isinstance(given, str) else list(given)


def _under(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _refuse_binary(value: Any, path: str) -> None:
    """Raises InvalidArgument if bytes or broken text are anywhere in a plain value."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise invalid(path, "must be text, not bytes")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise invalid(path, "must be valid Unicode") from None
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_binary(key, path)
            _refuse_binary(item, _under(path, key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            _refuse_binary(item, f"{path}[{number}]")


def _message(kind: type[M], fields: Mapping[str, Any], path: str) -> M:
    """Returns a message of plain fields, one after the other: an error of protobuf does not name the field."""
    message = kind()
    for name, given in fields.items():
        under = _under(path, name)
        field = kind.DESCRIPTOR.fields_by_name.get(name)
        if field is None:
            raise TypeError(f"{under}: {kind.DESCRIPTOR.name} has no such field")
        if field.is_repeated and isinstance(given, str):
            raise TypeError(f"{under}: must be a list, not one text")
        value = _value(field, given, under)
        try:
            message.MergeFrom(kind(**{name: value}))
        except (AttributeError, OverflowError, TypeError, ValueError) as err:
            err.args = (f"{under}: {err}",)
            raise
    return message


def _value(field: Any, value: Any, path: str) -> Any:
    """Returns a value as the constructor of a message takes it, which knows no plain values for google.protobuf.Value."""
    kind = field.message_type
    if kind is None or isinstance(value, Message):
        return value
    if kind.full_name == "google.protobuf.Value":
        return json_format.ParseDict(value, struct_pb2.Value())
    if isinstance(value, Mapping):
        if kind.GetOptions().map_entry:
            return {key: _value(kind.fields_by_name["value"], item, _under(path, key)) for key, item in value.items()}
        return value if kind.full_name.startswith("google.protobuf.") else _message(GetMessageClass(kind), value, path)
    return [_value(field, item, f"{path}[{n}]") for n, item in enumerate(value)] if isinstance(value, (list, tuple)) else value


def _check(message: Message, path: str) -> None:
    """Raises InvalidArgument if a text of a message has a zero byte or more bytes than the contract allows."""
    for field, value in message.ListFields():
        under = _under(path, field.name)
        most = MAX_BYTES.get(field.full_name)
        if most is not None:
            for number, text in enumerate(value if field.is_repeated else [value]):
                where = f"{under}[{number}]" if field.is_repeated else under
                if "\0" in text:
                    raise invalid(where, "must not contain a zero byte")
                if len(text.encode()) > most:
                    raise invalid(where, f"must be at most {most} bytes")
        elif field.message_type is None or field.message_type.GetOptions().map_entry or field.message_type.full_name.startswith("google."):
            continue
        elif field.is_repeated:
            for number, item in enumerate(value):
                _check(item, f"{under}[{number}]")
        else:
            _check(value, under)
    if isinstance(message, memory_pb2.Memory) and message.ByteSize() > MEMORY_BYTES:
        raise invalid(path or "memory", f"must be at most {MEMORY_BYTES} bytes in all")


def recalled(
    client: Any, namespace: str | Iterable[str], query: str, timeout: float | None, fields: Mapping[str, Any]
) -> list[recall_pb2.Hit]:
    """Returns the hits that have a text, for frameworks. A namespace in which nothing was stored yet has none."""
    names = texts(namespace)
    while names:
        try:
            hits = client.recall(names, query, timeout=timeout, **fields).hits
            return [hit for hit in hits if hit.HasField("memory")]
        except InvalidArgument as err:
            unknown = re.match(r'namespaces\[(\d+)]: ".*" is unknown', err.args[0])
            if not unknown:
                raise
            del names[int(unknown[1])]
    return []


def facts(hit: recall_pb2.Hit) -> dict[str, Any]:
    """Returns what frameworks keep beside the text of a hit: its metadata, where it is from, and its rank and score."""
    memory = hit.memory
    out = json_format.MessageToDict(memory.metadata)
    out |= {"namespace": hit.namespace, "rank": hit.rank, "score": hit.score, "created_at": hit.created_at.ToJsonString()}
    out |= {name: value for name in ("title", "category", "source") if (value := getattr(memory, name))}
    return out | ({"tags": list(memory.tags)} if memory.tags else {})
