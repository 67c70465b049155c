"""Stands in for langgraph.prebuilt: its model calls the first tool once, and answers with the result."""

from typing import Sequence

from langchain_core.tools import StructuredTool


class Message:
    def __init__(self, content: str) -> None:
        self.content = content


class Graph:
    def __init__(self, tools: Sequence[StructuredTool]) -> None:
        self.tools = tools

    def invoke(self, input: dict) -> dict:
        [message] = input["messages"]
        result = self.tools[0].invoke({"command": "echo sum: $((20 + 22))"})
        return {"messages": [Message(message["content"]), Message(result)]}


def create_react_agent(model: str, tools: Sequence[StructuredTool]) -> Graph:
    provider, _, name = model.partition(":")
    if not provider or not name:
        raise ValueError(f"Unable to infer model provider for {model!r}")
    return Graph(tools)
