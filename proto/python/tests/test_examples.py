"""The programs of the documentation, which tests/clients/python.sh copies here."""

import json

import agent
import move
import pytest


def test_agent(client, namespace):
    one = agent.agent(client, namespace, agent.parrot)
    first = one.invoke({"messages": [("user", "Deploys are frozen from Thursday noon.")]})["messages"][-1].text
    assert "Thursday" not in first
    client.wait_indexed(namespace)
    assert "frozen from Thursday noon" in one.invoke({"messages": [("user", "When are deploys frozen?")]})["messages"][-1].text


def test_chroma(address, client, namespace, tmp_path, capsys):
    file = tmp_path / "chroma.json"
    file.write_text(json.dumps({
        "ids": ["a", "b", "c"], "documents": ["Deploys are frozen from Thursday noon.", None, "Tea at four."],
        "metadatas": [{"team": "ops", "year": 2026}, None, None], "embeddings": None, "uris": None, "data": None, "included": ["documents", "metadatas"],
    }))
    for _ in range(2):
        move.main(address, namespace, "chroma", str(file))
    assert capsys.readouterr().out == "2 stored, 0 there already\n0 stored, 2 there already\n"
    hit = client.recall(namespace, "are deploys frozen?", filter={"metadata": {"team": "ops"}}).hits[0]
    assert (hit.memory.content, hit.memory.source) == ("Deploys are frozen from Thursday noon.", "chroma")


def test_chroma_long_ids(address, namespace, tmp_path, capsys):
    """Ids such as addresses of parts of a page differ at their ends only."""
    page = "https://example.com/" + "é" * 100
    file = tmp_path / "chroma.json"
    file.write_text(json.dumps({"ids": [f"{page}#1", f"{page}#2"], "documents": ["Deploys are frozen.", "Tea at four."], "metadatas": [None, None]}))
    for _ in range(2):
        move.main(address, namespace, "chroma", str(file))
    assert capsys.readouterr().out == "2 stored, 0 there already\n0 stored, 2 there already\n"


def test_unknown_kind(address, namespace):
    with pytest.raises(SystemExit, match="'pinecone' is unknown"):
        move.main(address, namespace, "pinecone", "none.json")


def test_weaviate(address, client, namespace, tmp_path, capsys):
    file = tmp_path / "weaviate.json"
    id = "0195942f-0000-7000-8000-000000000001"
    file.write_text(json.dumps({"objects": [
        {"class": "Note", "id": id, "creationTimeUnix": 1767225600000, "properties": {"text": "Deploys are frozen from Thursday noon.", "team": "ops"}},
        {"class": "Note", "id": "0195942f-0000-7000-8000-000000000002", "creationTimeUnix": 1767225600000, "properties": {"team": "ops"}},
    ]}))
    for _ in range(2):
        move.main(address, namespace, "weaviate", str(file))
    assert capsys.readouterr().out == "1 stored, 0 there already\n0 stored, 1 there already\n"
    (memory,) = client.get(namespace, id)
    assert (memory.content, memory.metadata["team"], memory.created_at.ToJsonString()) == ("Deploys are frozen from Thursday noon.", "ops", "2026-01-01T00:00:00Z")
