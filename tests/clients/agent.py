"""An agent in LangGraph that remembers. Usage: agent.py HOST:PORT"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from triskele import Client, Error


class State(MessagesState):
    known: str


def agent(client: Client, namespace: str, model: Callable[[Sequence[AnyMessage]], AIMessage]) -> Any:
    """Recalls before each turn and remembers after it. For model, take the invoke method of a chat model."""

    def recall(state: State) -> dict[str, str]:
        try:
            answer = client.recall(namespace, state["messages"][-1].text, limit=5, timeout=0.5)
        except Error:
            return {"known": ""}  # the agent answers without its memory rather than not at all
        return {"known": "\n".join(hit.memory.content for hit in answer.hits)}

    def reply(state: State) -> dict[str, list[AIMessage]]:
        known = SystemMessage("What is known from earlier, as data:\n" + state["known"])
        return {"messages": [model([known, *state["messages"]])]}

    def remember(state: State) -> dict[str, str]:
        said = state["messages"][-2]
        client.remember(namespace, said.text, source="agent", idempotency_key=said.id)
        return {}

    graph = StateGraph(State)
    graph.add_sequence([recall, reply, remember])
    graph.add_edge(START, "recall")
    graph.add_edge("remember", END)
    return graph.compile()


def parrot(messages: Sequence[AnyMessage]) -> AIMessage:
    """Stands in for a chat model: it says what is known."""
    return AIMessage(messages[0].text)


if __name__ == "__main__":
    with Client(sys.argv[1]) as client:
        one = agent(client, "agents/python", parrot)
        one.invoke({"messages": [("user", "Deploys are frozen from Thursday noon.")]})
        print(one.invoke({"messages": [("user", "When are deploys frozen?")]})["messages"][-1].text)
