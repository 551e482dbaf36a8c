"""The extras with the real frameworks, against a real gateway."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from triskele import InvalidArgument


@pytest.fixture
def remembered(client, namespace):
    client.remember(namespace, "Deploys are frozen from Thursday noon.", tags=["release"], metadata={"team": "ops"}, title="Freeze")
    client.remember(namespace, "The staging password is rotated on Mondays.")
    return namespace


def test_langchain(client, remembered):
    from langchain_core.runnables import RunnableLambda

    from triskele.langchain import TriskeleRetriever

    retriever = TriskeleRetriever(client=client, namespace=remembered, fields={"limit": 1}, timeout=5)
    chain = retriever | RunnableLambda(lambda documents: [d.page_content for d in documents])
    assert chain.invoke("are deploys frozen?") == ["Deploys are frozen from Thursday noon."]
    assert asyncio.run(chain.ainvoke("are deploys frozen?")) == ["Deploys are frozen from Thursday noon."]
    (document,) = retriever.invoke("are deploys frozen?")
    got = {key: document.metadata[key] for key in ("team", "title", "tags", "rank", "namespace")}
    assert got == {"team": "ops", "title": "Freeze", "tags": ["release"], "rank": 1, "namespace": remembered}
    assert document.id == client.recall(remembered, "are deploys frozen?").hits[0].id


def test_llamaindex(client, remembered):
    from llama_index.core.retrievers import BaseRetriever

    from triskele.llamaindex import TriskeleRetriever

    retriever = TriskeleRetriever(client, remembered, limit=1)
    assert isinstance(retriever, BaseRetriever)
    (node,) = retriever.retrieve("are deploys frozen?")
    assert (node.text, node.metadata["team"], node.score > 0) == ("Deploys are frozen from Thursday noon.", "ops", True)
    assert asyncio.run(retriever.aretrieve("are deploys frozen?"))[0].node_id == node.node_id


def test_a_namespace_without_memories_has_no_documents(client, remembered):
    from triskele.langchain import TriskeleRetriever
    from triskele.llamaindex import TriskeleRetriever as LlamaRetriever

    for names, found in [(f"{remembered}/new", 0), ([f"{remembered}/new", remembered, f"{remembered}/newer"], 2)]:
        assert len(TriskeleRetriever(client=client, namespace=names).invoke("what is frozen or rotated?")) == found
        assert len(LlamaRetriever(client, names).retrieve("what is frozen or rotated?")) == found
    with pytest.raises(InvalidArgument):
        TriskeleRetriever(client=client, namespace=[remembered, "No Such Name"]).invoke("deploys")


@pytest.fixture
def store(client):
    from triskele.langgraph import TriskeleStore

    return TriskeleStore(client)


def test_langgraph_items(client, store, namespace):
    ada = (*namespace.split("/"), "ada")
    value = {"likes": "green tea", "cups": 3, "share": 0.5, "nested": {"deep": [1, None, "x"]}, "big": 2**60}
    assert store.get(ada, "drinks") is None
    store.put(ada, "drinks", value)
    item = store.get(ada, "drinks")
    assert (item.value, item.key, item.namespace) == (value, "drinks", ada)
    assert type(item.value["cups"]) is int
    store.put(ada, "drinks", value | {"cups": 4})
    assert store.get(ada, "drinks").value["cups"] == 4
    assert store.get(ada, "drinks").created_at == item.created_at
    store.put(ada, "music", {"likes": "Bach", "cups": 1})
    store.put((*namespace.split("/"), "bob"), "drinks", {"likes": "coffee", "cups": 9})

    prefix = tuple(namespace.split("/"))
    found = store.search(prefix, query="tea")
    assert (found[0].key, found[0].namespace, found[0].score > 0) == ("drinks", ada, True)
    assert {(i.namespace[-1], i.key) for i in store.search(prefix)} == {("ada", "drinks"), ("ada", "music"), ("bob", "drinks")}
    assert [i.value["likes"] for i in store.search(prefix, filter={"cups": {"$gt": 4}})] == ["coffee"]
    assert [i.key for i in store.search(ada, filter={"likes": "Bach"})] == ["music"]
    assert [i.key for i in store.search(prefix, query="likes", filter={"cups": 1})] == ["music"]
    everything = store.search(prefix)
    assert store.search(prefix, limit=1, offset=1) == everything[1:2]

    assert store.list_namespaces(prefix=prefix) == [ada, (*prefix, "bob")]
    assert store.list_namespaces(prefix=prefix, max_depth=len(prefix)) == [prefix]
    assert store.list_namespaces(prefix=prefix, suffix=("bob",)) == [(*prefix, "bob")]
    assert store.list_namespaces(prefix=(prefix[0], "*"), suffix=("ada",), limit=1) == [ada] or len(prefix) != 2

    essay = {"text": "tea " * 8000, "cups": 2}
    store.put(ada, "essay", essay)
    assert store.get(ada, "essay").value == essay
    assert [i.key for i in store.search(prefix, filter=essay)] == ["essay"]
    store.delete(ada, "essay")

    many = {f"field {n}": n for n in range(100)}
    store.put(ada, "many", many)
    assert store.get(ada, "many").value == many
    assert [i.key for i in store.search(prefix, filter={"field 99": 99})] == ["many"]
    assert [i.key for i in store.search(prefix, query="field", filter={"field 99": 99})] == ["many"]
    assert store.search(prefix, filter={"field 99": 98}) == []
    store.delete(ada, "many")

    odd = {"nul": "x\0y", "inf": float("inf"), "huge": 10**400, "": 1, "k" * 129: 2, "\0": 3, "n": 4}
    large = {f"{n}".rjust(128, "<"): n for n in range(60)}
    for value in (odd, large):
        store.put(ada, "odd", value)
        assert store.get(ada, "odd").value == value
        for name in value:
            assert [i.key for i in store.search(ada, filter={name: value[name]})] == ["odd"]
        assert [i.key for i in store.search(ada, filter=value)] == ["odd"]
    store.delete(ada, "odd")
    with pytest.raises(InvalidArgument, match="memory.content"):
        store.put(ada, "broken", {"text": "\ud800"})

    memory = next(m for m in client.list("/".join(ada)) if m.source == "langgraph:music")
    client.update("/".join(ada), memory.id, content="Ada likes Bach.")
    assert store.get(ada, "music").value == {"content": "Ada likes Bach."}

    store.delete(ada, "drinks")
    assert store.get(ada, "drinks") is None
    assert [i.key for i in asyncio.run(store.asearch(ada))] == ["music"]

    theirs = client.remember("/".join(ada), "Ada sings on Tuesdays.").memory
    assert store.get(ada, theirs.id).value == {"content": "Ada sings on Tuesdays."}


def test_langgraph_puts_at_once(store, namespace):
    place = tuple(namespace.split("/"))
    with ThreadPoolExecutor(16) as threads:
        for key in ("a", "b", "c"):
            list(threads.map(lambda n: store.put(place, key, {"n": n}), range(16)))
            assert store.get(place, key).value["n"] in range(16)


def test_langgraph_agent(store, namespace):
    """A graph that runs stores what it was told, and a later run with another thread recalls it."""
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.store.base import BaseStore

    place = tuple(namespace.split("/"))

    def answer(state: MessagesState, *, store: BaseStore) -> dict[str, list[tuple[str, str]]]:
        text = state["messages"][-1].content
        if text.endswith("?"):
            known = store.search(place, query=text, limit=1)
            return {"messages": [("ai", known[0].value["text"] if known else "I do not know.")]}
        store.put(place, str(len(text)), {"text": text})
        return {"messages": [("ai", "Noted.")]}

    graph = StateGraph(MessagesState)
    graph.add_node("answer", answer)
    graph.add_edge(START, "answer")
    graph.add_edge("answer", END)
    agent = graph.compile(store=store)
    agent.invoke({"messages": [("user", "Deploys are frozen from Thursday noon.")]})
    said = agent.invoke({"messages": [("user", "When are deploys frozen?")]})["messages"][-1].content
    assert said == "Deploys are frozen from Thursday noon.", json.dumps(said)
