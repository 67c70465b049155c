"""Requests to a daemon, and its answers: JSON, lines of JSON, event streams, bytes."""

from __future__ import annotations

import contextvars
import http.client
import json
import os
import re
import select
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from .types import Problem, WaitingEvent


#: Bounds of what a daemon may answer, in bytes: a whole answer, an event, a line of JSON.
MAX_ANSWER = 64 << 20
MAX_EVENT = 4 << 20
MAX_LINE = 65 << 20
#: A daemon writes a comment every 15 seconds: a stream that is silent for longer is dead.
MAX_SILENCE = 60.0
#: The longest pause between two attempts to open a broken event stream again, in seconds.
MAX_PAUSE = 2.0
#: How many idle connections are kept.
MAX_IDLE = 4

_PIECE = 64 << 10

#: What can be sent as the content of a file or the input of a command: text, bytes, a file, or pieces of bytes.
Content = Union[str, bytes, bytearray, Iterable[bytes]]
Query = Mapping[str, Any]
#: Receives what a request waits for.
OnWait = Callable[["WaitingEvent"], Any]


#: The kinds of failures. The set is closed: a program may distinguish all of them.
KINDS = (
    "invalid unauthenticated denied not_found exists conflict unsupported unisolated exhausted timeout canceled unavailable declined internal"
).split()


class HortusError(Exception):
    """The one error of this package: ``kind`` is one of KINDS, ``message`` says what failed, ``hint`` what to do."""

    def __init__(self, kind: str, message: str, hint: str = "", call: str = "", status: int = 0, retry_after_ms: int = 0) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        #: The request that does what the hint says, such as ``POST /v1/sandboxes/ID/resume``.
        self.call = call
        #: The HTTP status, or 0 if there was no answer. 410 means that a retry never succeeds.
        self.status = status
        self.retry_after_ms = retry_after_ms

    @classmethod
    def of(cls, p: Problem, status: int = 0) -> HortusError:
        """Makes the error that a daemon describes, with the status of its answer or, in an answer in lines, of the description."""
        return cls(p["kind"], str(p["detail"]), p.get("hint", ""), p.get("call", ""), status or p.get("status", 0), p.get("retryAfterMs", 0))

    def __str__(self) -> str:
        return "%s (%s)" % (self.message, self.hint) if self.hint else self.message


def segment(id: str) -> str:
    """Makes an ID or a name safe as one segment of a path."""
    if not isinstance(id, str) or id in ("", ".", ".."):
        raise HortusError("invalid", "%r is not an ID" % (id,))
    return quote(id, safe="")


class Cancel:
    """Ends the calls of one thread: their connections are shut down, and later ones are refused."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Optional[http.client.HTTPConnection] = None
        self._canceled = False

    def use(self, connection: Optional[http.client.HTTPConnection]) -> None:
        with self._lock:
            if self._canceled and connection is not None:
                raise HortusError("canceled", "the call was canceled")
            self._connection = connection

    def cancel(self) -> None:
        with self._lock:
            self._canceled = True
            sock = self._connection.sock if self._connection is not None else None
            if sock is not None:
                try:
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)  # a read that waits returns
                except OSError:
                    pass


#: What can end the calls of this thread.
current: contextvars.ContextVar[Optional[Cancel]] = contextvars.ContextVar("current", default=None)


class Message(NamedTuple):
    event: str
    data: str


class Read(NamedTuple):
    """What a message of an event stream is: an item, its number, and whether it is the last one."""

    item: Any
    at: int
    last: bool


class Transport:
    """Connections to one daemon. Threads may share it."""

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, timeout: float = 600.0, patience: float = 60.0) -> None:
        if url is None:
            url = os.environ.get("HORTUS_HOST") or "http://127.0.0.1:7070"
        key = os.environ.get("HORTUS_API_KEY", "") if api_key is None else api_key
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host or "@" in parts.netloc or parts.query or parts.fragment or not re.fullmatch("[!-~]+", url):
            # A bad URL may contain a password, so the message does not quote it.
            raise HortusError(
                "invalid",
                "not the URL of a daemon",
                hint="use an http or https URL without a user name, a password or a query, for example https://hortus.example",
            )
        if not re.fullmatch("[!-~]+", key):
            raise HortusError(
                "invalid",
                "invalid or missing API key for %s" % parts.netloc,
                hint="set HORTUS_API_KEY or api_key; `hortus key create` prints a key",
            )
        self._host, self._port, self._prefix, self._key = host, port, parts.path.rstrip("/"), key
        self._timeout, self._patience = timeout, patience
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Closes the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                break
            try:
                if not select.select([connection.sock], [], [], 0)[0]:
                    return connection
            except (OSError, ValueError):
                pass
            connection.close()  # the daemon has closed it
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def release(self, connection: http.client.HTTPConnection, reusable: bool) -> None:
        with self._lock:
            if reusable and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def send(
        self,
        method: str,
        path: str,
        query: Optional[Query] = None,
        body: Any = None,
        content: Optional[Content] = None,
        idempotency_key: Optional[str] = None,
        silence: Optional[float] = 0,
        accept: Optional[str] = None,
    ) -> Answer:
        """Sends one request and returns its answer, whose status is a success.

        ``silence`` is how long the daemon may write nothing, in seconds; 0 is the client's timeout, None is any time.
        """
        pairs = [(k, str(v)) for k, value in (query or {}).items() for v in (value if isinstance(value, (list, tuple)) else [value]) if v not in (None, False)]
        target = self._prefix + path + ("?" + urlencode(pairs) if pairs else "")
        headers = {"X-API-Key": self._key}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        if accept is not None:
            headers["Accept"] = accept
        data: Any = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        elif content is not None:
            headers["Content-Type"] = "application/octet-stream"
            data = _pieces(content)
        elif method != "GET":
            data = b""
        cancel = current.get()
        connection = self._connect()
        try:
            if connection.sock is None:
                connection.connect()
            sock: Any = connection.sock
            sock.settimeout(self._timeout if silence == 0 else silence)
            if cancel is not None:
                cancel.use(connection)
            try:
                connection.request(method, target, body=data, headers=headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the daemon has answered before the request's end
            answer = Answer(self, connection, connection.getresponse(), path)
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise HortusError(
                "unavailable",
                "the daemon does not respond: %s" % (e or type(e).__name__),
                hint="check that `hortus serve` runs and that the URL is the one that it prints",
            ) from e
        except BaseException:
            connection.close()
            raise
        if not 200 <= answer.response.status < 300:
            raise answer.problem()
        return answer

    def call(self, method: str, path: str, **request: Any) -> Any:
        """Sends a request and decodes its answer, None if that has no content."""
        answer = self.send(method, path, **request)
        data = answer.whole()
        return None if answer.response.status == 204 else parse(data, path)

    def wait(self, path: str, on_wait: Optional[OnWait], **request: Any) -> Any:
        """Sends a request that may wait for capacity of the host, and decodes its answer. on_wait gets what it waits for."""
        if on_wait is None:
            return self.call("POST", path, **request)
        answer = self.send("POST", path, accept="application/json, application/x-ndjson", **request)
        if (answer.response.getheader("Content-Type") or "").split(";")[0] != "application/x-ndjson":
            return parse(answer.whole(), path)
        for line in answer.values():
            if line.get("error"):
                raise HortusError.of(line["error"])
            if line.get("waiting"):
                on_wait(line["waiting"])
            elif line.get("type") == "done":
                return line["answer"]
        raise answer.interrupted()

    def list(self, path: str, query: Query, limit: int = 0) -> List[Any]:
        """Reads the rows of a list, page by page; limit 0 means all."""
        rows: List[Any] = []
        cursor: Optional[str] = None
        while True:
            most = min(limit - len(rows), 1000) if limit else None
            answer = self.send("GET", path, query={**query, "limit": most, "cursor": cursor})
            page = parse(answer.whole(), path)
            rows.extend(page)
            following = answer.response.getheader("X-Next-Cursor")
            if not following or (limit and len(rows) >= limit):
                return rows
            if following == cursor or not page:
                raise HortusError("internal", "the daemon's list %s does not end" % path)
            cursor = following

    def follow(self, path: str, name: str, at: int, read: Callable[[Message], Read]) -> Iterator[Any]:
        """Yields the items of an event stream from a number on. A connection that breaks is made again, where it was."""
        failed, since = 0, 0.0
        while True:
            before, error = at, None
            try:
                answer = self.send("GET", path, query={name: str(at)}, silence=min(MAX_SILENCE, self._timeout))
                if answer.response.status == 204:
                    answer.whole()
                    return  # the last event was seen
                for message in answer.messages():
                    try:
                        got = read(message)
                        known = got.at <= at
                    except (KeyError, TypeError, IndexError) as e:
                        raise HortusError("internal", "cannot parse an event of %s: %s" % (path, _shown(message.data[:80]))) from e
                    if known and not got.last:
                        continue
                    at = got.at
                    yield got.item
                    if got.last:
                        return
            except HortusError as e:
                # A daemon that answers with another kind has decided.
                if e.kind != "unavailable" or e.status == 410:
                    raise
                error = e
            if at > before or failed == 0:
                failed, since = 0, time.monotonic()
            if time.monotonic() - since >= self._patience:
                raise error or HortusError("unavailable", "the daemon closed the event stream " + path)
            time.sleep(min(0.05 * 2 ** min(failed, 8), MAX_PAUSE))
            failed += 1

    def lines(self, path: str, body: Any, idempotency_key: Optional[str] = None) -> Iterator[Any]:
        """Yields an answer in lines of JSON."""
        return self.send("POST", path, body=body, idempotency_key=idempotency_key, silence=None).values()


class Answer:
    """The answer to one request. Its connection is used again if the answer is read to its end."""

    def __init__(self, transport: Transport, connection: http.client.HTTPConnection, response: http.client.HTTPResponse, path: str) -> None:
        self.response = response
        self._transport, self._connection, self._path = transport, connection, path

    def chunks(self) -> Iterator[bytes]:
        """Yields the pieces of the body. An end before that of the body is an error."""
        r, cancel, ended = self.response, current.get(), False
        try:
            while True:
                try:
                    # read waits for a whole piece, and read1 does not count what it has read of a known length.
                    piece = r.read1(_PIECE) if r.length is None else r.read(_PIECE)
                    if not piece and r.length:
                        raise http.client.IncompleteRead(b"", r.length)
                except (OSError, ValueError, AttributeError, http.client.HTTPException) as e:
                    if cancel is not None:
                        cancel.use(self._connection)  # if it was canceled, this says so
                    why = "it ended early" if isinstance(e, http.client.IncompleteRead) else str(e) or type(e).__name__
                    raise HortusError("unavailable", "the daemon's answer to %s was interrupted: %s" % (self._path, why)) from e
                if not piece:
                    ended = True
                    return
                yield piece
        finally:
            if cancel is not None:
                cancel.use(None)
            self._transport.release(self._connection, ended and not r.will_close)

    def whole(self) -> bytes:
        """Reads the whole body, of at most MAX_ANSWER bytes."""
        parts, size = [], 0
        for piece in self.chunks():
            size += len(piece)
            if size > MAX_ANSWER:
                raise HortusError(
                    "exhausted",
                    "the daemon's answer to %s is larger than %d MiB" % (self._path, MAX_ANSWER >> 20),
                    hint="read a large file as a stream",
                )
            parts.append(piece)
        return b"".join(parts)

    def split(self, most: int) -> Iterator[Tuple[bytes, bool]]:
        """Yields lines without their ends. The second value is False for bytes after the last end of a line."""
        parts: List[bytes] = []
        size = 0
        for piece in self.chunks():
            start = 0
            while True:
                end = piece.find(b"\n", start)
                part = piece[start:] if end < 0 else piece[start:end]
                size += len(part)
                if size > most:
                    raise HortusError("exhausted", "the daemon's answer to %s has a line of more than %d MiB" % (self._path, most >> 20))
                parts.append(part)
                if end < 0:
                    break
                yield b"".join(parts), True
                parts, size, start = [], 0, end + 1
        if size:
            yield b"".join(parts), False

    def values(self) -> Iterator[Any]:
        """Yields the objects of an answer in lines of JSON."""
        for line, whole in self.split(MAX_LINE):
            if not whole:
                raise self.interrupted()
            if line:
                value = parse(line, self._path)
                if not isinstance(value, dict):
                    raise HortusError("internal", "a line of the daemon's answer to %s is not an object: %s" % (self._path, _shown(line[:80])))
                yield value

    def interrupted(self) -> HortusError:
        return HortusError("unavailable", "the daemon's answer to %s was interrupted" % self._path)

    def messages(self) -> Iterator[Message]:
        """Yields the messages of an event stream. What a cut has left of one is dropped."""
        event = data = ""
        for line, whole in self.split(MAX_EVENT):
            if not whole:
                return
            if not line:
                if data:
                    yield Message(event, data)
                event = data = ""
            elif line.startswith(b"event:"):
                event = line[6:].strip().decode("utf-8", "replace")
            elif line.startswith(b"data:"):
                data = line[5:].decode("utf-8", "replace")

    def problem(self) -> HortusError:
        """Reads the error that the answer carries."""
        status = self.response.status
        try:
            text = self.whole()
        except HortusError:
            text = b""
        try:
            p: Problem = json.loads(text)
            if p["kind"] not in KINDS:
                raise ValueError(p["kind"])
            return HortusError.of(p, status)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # 502 to 504 are of a proxy that has no daemon now.
            return HortusError("unavailable" if status in (502, 503, 504) else "internal", "unexpected response from the daemon: %d %s" % (status, _shown(text[:200])), status=status)


def parse(data: Union[bytes, str], path: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as e:
        raise HortusError("internal", "cannot parse the daemon's answer to %s: %s" % (path, _shown(data[:80]))) from e


def _shown(text: Union[bytes, str]) -> str:
    """Quotes a part of an answer, which may have control characters."""
    return json.dumps(text if isinstance(text, str) else text.decode("utf-8", "replace"))


def _pieces(content: Content) -> Any:
    """Makes what http.client sends: bytes with their length, or pieces."""
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, (bytes, bytearray)):
        return bytes(content)
    read = getattr(content, "read", None)
    if read is None:
        return content
    return iter(lambda: _bytes(read(_PIECE)), b"")


def _bytes(piece: Union[str, bytes]) -> bytes:
    return piece.encode() if isinstance(piece, str) else piece


def options(**fields: Any) -> Dict[str, Any]:
    """The fields of a request that are set."""
    return {k: v for k, v in fields.items() if v is not None}
