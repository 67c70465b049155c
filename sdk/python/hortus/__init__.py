"""The Python SDK of Hortus.

    with Sandbox.create() as sandbox:
        print(sandbox.run(["python3", "-c", "print(6 * 7)"]).stdout)

``AsyncSandbox`` and ``AsyncHortus`` are the same for asyncio. Requests and answers are dictionaries with the fields of
the HTTP API, which ``hortus.types`` describes.
"""

from typing import TYPE_CHECKING, Any

from .client import Hortus
from .sandbox import CodeError, CodeResult, Command, CommandEvent, Fork, Result, Sandbox
from .transport import KINDS, HortusError

if TYPE_CHECKING:
    from .aio import AsyncCommand, AsyncFork, AsyncHortus, AsyncSandbox

__all__ = [
    "KINDS",
    "AsyncCommand",
    "AsyncFork",
    "AsyncHortus",
    "AsyncSandbox",
    "CodeError",
    "CodeResult",
    "Command",
    "CommandEvent",
    "Fork",
    "Hortus",
    "HortusError",
    "Result",
    "Sandbox",
]


def __getattr__(name: str) -> Any:
    # asyncio is slow to load, and many programs do not use it.
    if name.startswith("Async") and name in __all__:
        from . import aio

        return getattr(aio, name)
    raise AttributeError(name)
