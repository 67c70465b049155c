"""The same client for asyncio: each call runs in a thread of its own, and ends with its task."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Dict, Iterator, List, NamedTuple, Optional, TypeVar

from . import client
from .sandbox import Args, Command, Fork, Sandbox
from .transport import Cancel, current

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    from .types import CreateSandbox, ForkResult, ForkSandbox

    P = ParamSpec("P")
R = TypeVar("R")
_END: Any = object()


async def _call(f: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Runs a call in a thread. If the task is canceled, the connection of the call is shut down."""
    return await _call_with(Cancel(), functools.partial(f, *args, **kwargs))


async def _call_with(cancel: Cancel, f: Callable[[], R]) -> R:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()

    def finish(set: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            set(value)

    def work() -> None:
        current.set(cancel)  # a thread has a context of its own
        try:
            outcome = (finish, future.set_result, f())
        except BaseException as e:
            if isinstance(e, StopIteration):  # a future cannot have it
                e = RuntimeError("a callback raised StopIteration")
            outcome = (finish, future.set_exception, e)
        try:
            loop.call_soon_threadsafe(*outcome)
        except RuntimeError:
            pass  # the loop is closed

    threading.Thread(target=work, daemon=True).start()
    try:
        return await future
    except asyncio.CancelledError:
        cancel.cancel()
        raise


async def _iterate(make: Callable[[], Iterator[R]]) -> AsyncIterator[R]:
    cancel = Cancel()  # of all calls: they share a connection
    iterator = await _call_with(cancel, make)
    waiting = False
    try:
        while True:
            waiting = True
            item = await _call_with(cancel, functools.partial(next, iterator, _END))
            waiting = False
            if item is _END:
                return
            yield item
    finally:
        if not waiting:  # otherwise its thread closes it
            close = getattr(iterator, "close", None)
            if close is not None:
                close()


def _in_loop(options: Dict[str, Any]) -> Dict[str, Any]:
    """Makes callbacks run in the event loop."""
    soon = asyncio.get_running_loop().call_soon_threadsafe
    return {name: functools.partial(soon, value) if name.startswith("on_") and value is not None else value for name, value in options.items()}


def _lift(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], Awaitable[R]]:
    @functools.wraps(method)
    async def lifted(self: Any, *args: Any, **kwargs: Any) -> R:
        return await _call(method, self._sync, *args, **_in_loop(kwargs))

    return lifted


def _lift_iterator(method: Callable[Concatenate[Any, P], Iterator[R]]) -> Callable[Concatenate[Any, P], AsyncIterator[R]]:
    @functools.wraps(method)
    def lifted(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[R]:
        return _iterate(lambda: method(self._sync, *args, **kwargs))

    return lifted


class _Async:
    def __init__(self, sync: Any) -> None:
        self._sync = sync


class AsyncCommand(_Async):
    @property
    def id(self) -> str:
        return self._sync.id

    info = _lift(Command.info)
    events = _lift_iterator(Command.events)
    wait = _lift(Command.wait)
    write = _lift(Command.write)
    signal = _lift(Command.signal)
    kill = _lift(Command.kill)


class AsyncFork(NamedTuple):
    result: ForkResult
    sandboxes: List[AsyncSandbox]


class AsyncSandbox(_Async):
    @classmethod
    async def create(cls, request: Optional[CreateSandbox] = None, **options: Any) -> AsyncSandbox:
        """Creates a sandbox, with the options of Sandbox.create."""
        return cls(await _call(Sandbox.create, request, **_in_loop(options)))

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        # Also a task that was canceled waits until the sandbox has ended.
        await asyncio.shield(asyncio.ensure_future(_call(self._sync.__exit__)))

    @property
    def id(self) -> str:
        return self._sync.id

    async def start(self, args: Args, **options: Any) -> AsyncCommand:
        """Starts a command, with the options of Sandbox.start."""
        return AsyncCommand(await _call(self._sync.start, args, **options))

    def command(self, id: str) -> AsyncCommand:
        return AsyncCommand(self._sync.command(id))

    async def fork(self, request: Optional[ForkSandbox] = None, **options: Any) -> AsyncFork:
        """Forks the sandbox, with the options of Sandbox.fork."""
        out: Fork = await _call(self._sync.fork, request, **_in_loop(options))
        return AsyncFork(out.result, [AsyncSandbox(s) for s in out.sandboxes])

    run = _lift(Sandbox.run)
    info = _lift(Sandbox.info)
    kill = _lift(Sandbox.kill)
    set_ttl = _lift(Sandbox.set_ttl)
    pause = _lift(Sandbox.pause)
    resume = _lift(Sandbox.resume)
    stats = _lift(Sandbox.stats)
    samples = _lift(Sandbox.samples)
    snapshot = _lift(Sandbox.snapshot)
    set_egress = _lift(Sandbox.set_egress)
    events = _lift_iterator(Sandbox.events)
    commands = _lift(Sandbox.commands)
    read_file = _lift(Sandbox.read_file)
    read_text = _lift(Sandbox.read_text)
    read_stream = _lift_iterator(Sandbox.read_stream)
    write_file = _lift(Sandbox.write_file)
    list_dir = _lift(Sandbox.list_dir)
    stat = _lift(Sandbox.stat)
    make_dir = _lift(Sandbox.make_dir)
    move = _lift(Sandbox.move)
    remove = _lift(Sandbox.remove)
    run_code = _lift(Sandbox.run_code)
    code_events = _lift_iterator(Sandbox.code_events)
    code_contexts = _lift(Sandbox.code_contexts)
    create_code_context = _lift(Sandbox.create_code_context)
    delete_code_context = _lift(Sandbox.delete_code_context)
    restart_code_context = _lift(Sandbox.restart_code_context)
    interrupt_code = _lift(Sandbox.interrupt_code)


class AsyncHortus(_Async):
    """A client of one daemon for asyncio, with the options of Hortus."""

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, *, timeout: float = 600.0, patience: float = 60.0) -> None:
        super().__init__(client.Hortus(url, api_key, timeout=timeout, patience=patience))
        self.sandboxes = AsyncSandboxes(self._sync.sandboxes)
        self.snapshots = AsyncSnapshots(self._sync.snapshots)
        self.templates = AsyncTemplates(self._sync.templates)
        self.tasks = AsyncTasks(self._sync.tasks)
        self.runs = AsyncRuns(self._sync.runs)
        self.plans = AsyncPlans(self._sync.plans)
        self.sessions = AsyncSessions(self._sync.sessions)
        self.secrets = AsyncSecrets(self._sync.secrets)

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._sync.close()

    info = _lift(client.Hortus.info)
    request = _lift(client.Hortus.request)


class AsyncSandboxes(_Async):
    async def create(self, request: Optional[CreateSandbox] = None, **options: Any) -> AsyncSandbox:
        """Creates a sandbox, with the options of Sandboxes.create."""
        return AsyncSandbox(await _call(self._sync.create, request, **_in_loop(options)))

    async def get(self, id: str) -> AsyncSandbox:
        return AsyncSandbox(await _call(self._sync.get, id))

    list = _lift(client.Sandboxes.list)


class AsyncSnapshots(_Async):
    list = _lift(client.Snapshots.list)
    get = _lift(client.Snapshots.get)
    remove = _lift(client.Snapshots.remove)


class AsyncTemplates(_Async):
    list = _lift(client.Templates.list)
    create = _lift(client.Templates.create)


class AsyncTasks(_Async):
    create = _lift(client.Tasks.create)
    reply = _lift(client.Tasks.reply)
    get = _lift(client.Tasks.get)
    list = _lift(client.Tasks.list)
    cancel = _lift(client.Tasks.cancel)
    events = _lift_iterator(client.Tasks.events)
    output = _lift_iterator(client.Tasks.output)
    diff = _lift_iterator(client.Tasks.diff)


class AsyncRuns(_Async):
    create = _lift(client.Runs.create)
    get = _lift(client.Runs.get)
    list = _lift(client.Runs.list)
    cancel = _lift(client.Runs.cancel)
    events = _lift_iterator(client.Runs.events)
    output = _lift_iterator(client.Runs.output)


class AsyncPlans(_Async):
    create = _lift(client.Plans.create)
    list = _lift(client.Plans.list)
    get = _lift(client.Plans.get)
    approve = _lift(client.Plans.approve)
    edit = _lift(client.Plans.edit)
    answer = _lift(client.Plans.answer)
    retry = _lift(client.Plans.retry)
    replan = _lift(client.Plans.replan)
    pause = _lift(client.Plans.pause)
    resume = _lift(client.Plans.resume)
    cancel = _lift(client.Plans.cancel)
    deliver = _lift(client.Plans.deliver)
    unfollow = _lift(client.Plans.unfollow)
    workstreams = _lift(client.Plans.workstreams)
    events = _lift_iterator(client.Plans.events)


class AsyncSessions(_Async):
    create = _lift(client.Sessions.create)
    list = _lift(client.Sessions.list)
    get = _lift(client.Sessions.get)
    send = _lift(client.Sessions.send)
    cancel = _lift(client.Sessions.cancel)
    restore = _lift(client.Sessions.restore)
    fork = _lift(client.Sessions.fork)
    close = _lift(client.Sessions.close)
    events = _lift_iterator(client.Sessions.events)


class AsyncSecrets(_Async):
    set = _lift(client.Secrets.set)
    get = _lift(client.Secrets.get)
    remove = _lift(client.Secrets.remove)
    list = _lift(client.Secrets.list)
