"""Stands in for langchain_core.tools, with the signatures that the example uses."""

from typing import Callable


class StructuredTool:
    def __init__(self, func: Callable[..., str]) -> None:
        self.name, self.description, self.func = func.__name__, func.__doc__, func

    def invoke(self, input: dict) -> str:
        return self.func(**input)


def tool(func: Callable[..., str]) -> StructuredTool:
    if not func.__doc__:
        raise ValueError("Function must have a docstring if description not provided.")
    return StructuredTool(func)
