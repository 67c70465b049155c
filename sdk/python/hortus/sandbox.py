"""Sandboxes: commands, files, code, forks and snapshots."""

from __future__ import annotations

import base64
import codecs
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from .transport import MAX_ANSWER, Content, HortusError, Message, OnWait, Read, Transport, current, options, parse, segment

if TYPE_CHECKING:
    from .types import CodeContext, CodeEvent, CreateSandbox, CreateSnapshot, EgressPolicy, Event, Exec, Exit, FileInfo, ForkResult, ForkSandbox, Killed, KilledExec, PTYSize, Snapshot, Stats
    from .types import Sandbox as Info

Args = Union[str, Sequence[str]]
OnText = Callable[[str], Any]


class Result(NamedTuple):
    """What came of a command. An exit code other than 0 is a result, not an error."""

    exit_code: int
    stdout: str
    stderr: str
    #: The signal or the cause of the end, if it has one.
    exit: Exit
    #: Bytes of output that the sandbox no longer had when they were read; almost always 0.
    lost_bytes: int


class CommandEvent(NamedTuple):
    """What a command does. ``type`` is output, with ``stream`` and ``data``; gap, with ``lost`` bytes; or exit, with ``exec``."""

    type: str
    stream: str = ""
    data: bytes = b""
    offset: int = 0
    lost: int = 0
    exec: Optional[Exec] = None


class CodeError(NamedTuple):
    name: str
    value: str
    traceback: str


class CodeResult(NamedTuple):
    """What came of a piece of code."""

    #: The value of the last expression as text; "" if there is none.
    text: str
    stdout: str
    stderr: str
    #: What the code displayed, and its value: text, and other forms such as png.
    results: List[CodeEvent]
    #: Why the code failed, or None.
    error: Optional[CodeError]


class Sandbox:
    """A sandbox. Only ``kill``, its deadline and the end of a ``with`` block end it."""

    def __init__(self, transport: Transport, id: str) -> None:
        self._t = transport
        self.id = id
        self._path = "/v1/sandboxes/" + segment(id)

    @classmethod
    def create(
        cls,
        request: Optional[CreateSandbox] = None,
        *,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        on_wait: Optional[OnWait] = None,
        idempotency_key: Optional[str] = None,
    ) -> Sandbox:
        """Creates a sandbox with a client of the environment's daemon, or of the given one."""
        return create_sandbox(Transport(url, api_key), request, on_wait, idempotency_key)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
        except HortusError as e:
            if e.status != 410:
                raise

    def info(self) -> Info:
        return self._t.call("GET", self._path)

    def kill(self) -> Killed:
        """Ends the sandbox and everything in it."""
        return self._t.call("DELETE", self._path)

    def set_ttl(self, ttl_ms: int) -> Info:
        """Moves the deadline to a time from now."""
        return self._t.call("POST", self._path + "/ttl", body={"ttlMs": ttl_ms})

    def pause(self, *, to_disk: bool = False) -> Info:
        """Freezes the sandbox; with to_disk its memory is saved and released."""
        return self._t.call("POST", self._path + "/pause", body={"toDisk": to_disk})

    def resume(self, *, on_wait: Optional[OnWait] = None) -> Info:
        """Continues a paused sandbox. on_wait gets what it waits for, if the host is full."""
        return self._t.wait(self._path + "/resume", on_wait)

    def stats(self) -> Stats:
        return self._t.call("GET", self._path + "/stats")

    def samples(self) -> List[Stats]:
        """What the sandbox used during the last hour, every five seconds, the oldest first."""
        return self._t.call("GET", self._path + "/samples")

    def snapshot(self, request: Optional[CreateSnapshot] = None, *, idempotency_key: Optional[str] = None) -> Snapshot:
        """Saves the sandbox as it is now; with a name the snapshot is a template."""
        return self._t.call("POST", self._path + "/snapshots", body=request or {}, idempotency_key=idempotency_key)

    def fork(self, request: Optional[ForkSandbox] = None, *, on_wait: Optional[OnWait] = None, idempotency_key: Optional[str] = None) -> Fork:
        """Creates sandboxes that continue from where this one is. It fails if no child was created. on_wait gets what they wait for."""
        result: ForkResult = self._t.wait(self._path + "/forks", on_wait, body=request or {}, idempotency_key=idempotency_key)
        rows = [c.get("sandbox") for c in result["children"]]
        sandboxes = [Sandbox(self._t, row["id"]) for row in rows if row]
        if sandboxes:
            return Fork(result, sandboxes)
        for c in result["children"]:
            e = c.get("error")
            if e:
                raise HortusError(e["kind"], e["message"], e.get("hint", ""), retry_after_ms=e.get("retryAfterMs", 0))
        raise HortusError("internal", "the fork has no children")

    def set_egress(self, policy: EgressPolicy) -> Info:
        """Replaces the policy of outgoing connections."""
        return self._t.call("PUT", self._path + "/egress", body=policy)

    def events(self, after: int = 0) -> Iterator[Event]:
        """Yields the sandbox's events after a number, and ends when the sandbox has ended."""

        def read(m: Message) -> Read:
            e = parse(m.data, self._path)
            return Read(e, e["seq"], e["type"] == "sandbox.state" and e["data"]["state"] in ("ended", "lost"))

        return self._t.follow(self._path + "/events", "after", after, read)

    # Commands.

    def run(
        self,
        args: Args,
        *,
        stdin: Optional[Content] = None,
        on_stdout: Optional[OnText] = None,
        on_stderr: Optional[OnText] = None,
        dir: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        pty: Optional[PTYSize] = None,
        tag: Optional[str] = None,
    ) -> Result:
        """Runs a command and waits for its end. A string is run by the shell. An exception ends the command."""
        command = self.start(args, stdin=stdin is not None, dir=dir, env=env, user=user, timeout_ms=timeout_ms, pty=pty, tag=tag)
        try:
            if stdin is not None:
                threading.Thread(target=_feed, args=(command, stdin), daemon=True).start()
            return command.wait(on_stdout=on_stdout, on_stderr=on_stderr)
        except BaseException:
            current.set(None)
            try:
                command.kill()
            except HortusError:
                pass
            raise

    def start(
        self,
        args: Args,
        *,
        stdin: bool = False,
        dir: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        user: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        pty: Optional[PTYSize] = None,
        tag: Optional[str] = None,
        idempotency_key: Optional[str] = None,
    ) -> Command:
        """Starts a command. It runs whether or not its output is read. stdin keeps its input open for Command.write."""
        words = ["sh", "-c", args] if isinstance(args, str) else list(args)
        body = options(args=words, dir=dir, env=env and dict(env), user=user, timeoutMs=timeout_ms, stdin=stdin or None, pty=pty, tag=tag)
        row = self._t.call("POST", self._path + "/execs", body=body, idempotency_key=idempotency_key)
        return self.command(row["id"])

    def command(self, id: str) -> Command:
        """Returns a command that was started earlier."""
        return Command(self._t, self._path + "/execs/" + segment(id), id)

    def commands(self) -> List[Exec]:
        """Lists the commands, the newest first."""
        return self._t.list(self._path + "/execs", {})

    # Files. A path that does not begin with / starts in /workspace.

    def _query(self, path: str, user: Optional[str], **more: Any) -> Dict[str, Any]:
        return {"query": {"path": path, "user": user, **more}}

    def read_file(self, path: str, *, user: Optional[str] = None) -> bytes:
        """Reads a file of up to 64 MiB."""
        return self._t.send("GET", self._path + "/files", **self._query(path, user)).whole()

    def read_text(self, path: str, *, user: Optional[str] = None) -> str:
        return self.read_file(path, user=user).decode("utf-8", "replace")

    def read_stream(self, path: str, *, user: Optional[str] = None) -> Iterator[bytes]:
        """Yields the content of a file of any size."""
        yield from self._t.send("GET", self._path + "/files", **self._query(path, user)).chunks()

    def write_file(self, path: str, data: Content, *, user: Optional[str] = None) -> None:
        """Writes a file whole, with its parents. A file or an iterator is sent as it is read."""
        self._t.call("PUT", self._path + "/files", content=data, **self._query(path, user))

    def list_dir(self, path: str = ".", *, depth: int = 1, user: Optional[str] = None) -> List[FileInfo]:
        return self._t.call("GET", self._path + "/files/list", **self._query(path, user, depth=depth))

    def stat(self, path: str, *, user: Optional[str] = None) -> FileInfo:
        return self._t.call("GET", self._path + "/files/info", **self._query(path, user))

    def make_dir(self, path: str, *, user: Optional[str] = None) -> None:
        """Creates a directory and its parents. One that exists is no error."""
        try:
            self._t.call("PUT", self._path + "/files/directory", **self._query(path, user))
        except HortusError as e:
            if e.kind != "exists":
                raise

    def move(self, path: str, to: str, *, user: Optional[str] = None) -> FileInfo:
        return self._t.call("POST", self._path + "/files/move", **self._query(path, user, to=to))

    def remove(self, path: str, *, user: Optional[str] = None) -> None:
        """Removes a file, or a directory with everything in it."""
        self._t.call("DELETE", self._path + "/files", **self._query(path, user))

    # Code.

    def run_code(
        self,
        code: str,
        *,
        language: Optional[str] = None,
        context: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        on_event: Optional[Callable[[CodeEvent], Any]] = None,
    ) -> CodeResult:
        """Runs a piece of code. What it defines stays for the next piece. An error of the code is in the result."""
        text, error, size = "", None, 0
        out: Dict[str, List[str]] = {"stdout": [], "stderr": []}
        results: List[CodeEvent] = []
        for e in self.code_events(code, language=language, context=context, env=env):
            if on_event is not None:
                on_event(e)
            kind, piece = e["type"], e.get("text", "")
            size += len(piece)
            if size > MAX_ANSWER:
                raise _too_much("the code")
            if kind in out:
                out[kind].append(piece)
            elif kind == "error":
                error = CodeError(e.get("name", ""), e.get("value", ""), e.get("traceback", ""))
            elif kind == "result":
                results.append(e)
                text = piece if e.get("main") else text
        return CodeResult(text, "".join(out["stdout"]), "".join(out["stderr"]), results, error)

    def code_events(
        self, code: str, *, language: Optional[str] = None, context: Optional[str] = None, env: Optional[Mapping[str, str]] = None
    ) -> Iterator[CodeEvent]:
        """Runs a piece of code and yields its events. The code is interrupted if the iterator is closed."""
        return self._t.lines(self._path + "/code", options(code=code, language=language, context=context, env=env and dict(env)))

    def code_contexts(self) -> List[CodeContext]:
        return self._t.call("GET", self._path + "/code/contexts")

    def create_code_context(self, *, language: Optional[str] = None, dir: Optional[str] = None) -> CodeContext:
        return self._t.call("POST", self._path + "/code/contexts", body=options(language=language, dir=dir))

    def delete_code_context(self, id: str) -> None:
        self._t.call("DELETE", self._path + "/code/contexts/" + segment(id))

    def restart_code_context(self, id: str) -> None:
        self._t.call("POST", self._path + "/code/contexts/%s/restart" % segment(id))

    def interrupt_code(self, id: str) -> None:
        self._t.call("POST", self._path + "/code/contexts/%s/interrupt" % segment(id))


class Fork(NamedTuple):
    """The children of a fork. ``result["children"]`` says for each one whether it was created."""

    result: ForkResult
    sandboxes: List[Sandbox]


class Command:
    """A command in a sandbox."""

    def __init__(self, transport: Transport, path: str, id: str) -> None:
        self._t, self._path, self.id = transport, path, id

    def info(self) -> Exec:
        return self._t.call("GET", self._path)

    def events(self, offset: int = 0) -> Iterator[CommandEvent]:
        """Yields what the command writes from a byte of its output on, and then its end."""
        return self._t.follow(self._path + "/output", "offset", offset, self._read)

    def _read(self, m: Message) -> Read:
        e = parse(m.data, self._path)
        if m.event == "exit":
            return Read(CommandEvent("exit", exec=e), 0, True)
        if m.event == "gap":
            return Read(CommandEvent("gap", offset=e["from"], lost=e["to"] - e["from"]), e["to"], False)
        try:
            data = base64.b64decode(e["data"], validate=True)
        except ValueError as cause:
            raise HortusError("internal", "the daemon sent output that is not base64") from cause
        return Read(CommandEvent("output", e["stream"], data, e["offset"]), e["offset"] + len(data), False)

    def wait(self, *, on_stdout: Optional[OnText] = None, on_stderr: Optional[OnText] = None) -> Result:
        """Waits for the end, with all output from the beginning on, up to 64 MiB."""
        decoder = codecs.getincrementaldecoder("utf-8")
        decoders = {"stdout": decoder("replace"), "stderr": decoder("replace")}
        text: Dict[str, List[str]] = {"stdout": [], "stderr": []}
        receivers = {"stdout": on_stdout, "stderr": on_stderr}
        size = lost = 0

        def add(to: str, data: bytes, final: bool = False) -> None:
            piece = decoders[to].decode(data, final)
            receiver = receivers[to]
            if piece:
                text[to].append(piece)
                if receiver is not None:
                    receiver(piece)

        for e in self.events():
            if e.type == "gap":
                lost += e.lost
            elif e.type == "output":
                size += len(e.data)
                if size > MAX_ANSWER:
                    raise _too_much("command " + self.id)
                add("stderr" if e.stream == "stderr" else "stdout", e.data)
            else:
                add("stdout", b"", True)
                add("stderr", b"", True)
                exit: Exit = (e.exec or {}).get("exit") or {"code": -1, "cause": "unknown"}
                return Result(exit["code"], "".join(text["stdout"]), "".join(text["stderr"]), exit, lost)
        raise HortusError("unavailable", "the end of command %s is unknown" % self.id)

    def write(self, data: Content, *, close: bool = False) -> None:
        """Writes to the command's input, and ends it if close is true."""
        self._t.call("POST", self._path + "/stdin", query={"close": "true" if close else None}, content=data)

    def signal(self, signal: int) -> None:
        """Sends a signal, 1 to 31, to the command's process group."""
        self._t.call("POST", self._path + "/signal", body={"signal": signal})

    def kill(self) -> KilledExec:
        """Kills the command's process group and returns when its end was seen."""
        return self._t.call("POST", self._path + "/kill")


def create_sandbox(transport: Transport, request: Optional[CreateSandbox], on_wait: Optional[OnWait], idempotency_key: Optional[str]) -> Sandbox:
    row = transport.wait("/v1/sandboxes", on_wait, body=request or {}, idempotency_key=idempotency_key)
    return Sandbox(transport, row["id"])


def _feed(command: Command, data: Content) -> None:
    try:
        command.write(data, close=True)
    except HortusError:
        pass  # a command need not read its input, so only its end counts


def _too_much(of: str) -> HortusError:
    return HortusError(
        "exhausted",
        "the output of %s is larger than %d MiB" % (of, MAX_ANSWER >> 20),
        hint="write it to a file, or read its events and do not keep them",
    )
