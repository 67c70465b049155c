"""Stands in for crewai.tools."""

from typing import Callable


class Tool:
    def __init__(self, name: str, func: Callable[..., str]) -> None:
        self.name, self.description, self.run = name, func.__doc__, func


def tool(name: str) -> Callable[[Callable[..., str]], Tool]:
    return lambda func: Tool(name, func)
