"""Moves memories from a vector database. Usage: move.py HOST:PORT NAMESPACE chroma|weaviate FILE"""

import datetime
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from triskele import Client


def from_chroma(namespace: str, got: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Takes what a collection's get(include=["documents", "metadatas"]) returns."""
    for id, text, metadata in zip(got["ids"], got["documents"], got["metadatas"], strict=True):
        if text:  # a record may have a vector alone
            if len(id.encode()) > 121:  # a key has 128 bytes at most
                id = hashlib.sha256(id.encode()).hexdigest()
            yield {"namespace": namespace, "content": text, "metadata": metadata or {}, "source": "chroma", "idempotency_key": f"chroma:{id}"}


def from_weaviate(namespace: str, objects: Iterable[Mapping[str, Any]], text: str = "text") -> Iterator[dict[str, Any]]:
    """Takes the objects of GET /v1/objects. text is the property that has the text; the others become metadata."""
    for one in objects:
        properties = dict(one["properties"])
        content = properties.pop(text, None)
        if content:
            at = datetime.datetime.fromtimestamp(one["creationTimeUnix"] / 1000, datetime.timezone.utc)
            yield {"namespace": namespace, "id": one["id"], "content": content, "metadata": properties, "source": "weaviate", "created_at": at}


def main(address: str, namespace: str, kind: str, file: str) -> None:
    if kind not in ("chroma", "weaviate"):
        sys.exit(f"kind {kind!r} is unknown: there are chroma and weaviate")
    with open(file, encoding="utf-8") as stream:
        read = json.load(stream)
    memories = from_chroma(namespace, read) if kind == "chroma" else from_weaviate(namespace, read["objects"])
    with Client(address) as client:
        done = client.import_(memories)
        print(f"{done.stored} stored, {done.unchanged} there already")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
