"""Stands in for the OpenAI Agents SDK: its model calls the first tool once, and answers with the result."""

from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, List


@dataclass
class FunctionTool:
    name: str
    description: str
    call: Callable[..., Awaitable[Any]]


def function_tool(func: Callable[..., Awaitable[Any]]) -> FunctionTool:
    return FunctionTool(func.__name__, func.__doc__ or "", func)


@dataclass
class Agent:
    name: str
    instructions: str = ""
    tools: List[FunctionTool] = field(default_factory=list)


@dataclass
class RunResult:
    final_output: Any


class Runner:
    @classmethod
    async def run(cls, starting_agent: Agent, input: str) -> RunResult:
        [tool] = starting_agent.tools
        await tool.call(code="total = 20")
        return RunResult("sum: " + await tool.call(code="total + 22"))
