"""A client of one daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Mapping, Optional, Sequence

from .sandbox import Sandbox, create_sandbox
from .transport import HortusError, Message, OnWait, Read, Transport, parse, segment

if TYPE_CHECKING:
    from .types import CreateRun, CreateSandbox, CreateTask, CreateTemplate, DaemonInfo, Event, Plan, PlanAnswer, PlanCreate, PlanDeliver
    from .types import PlanEdit, PlanReplan, PlanRetry, ReplyTask, RunEvent, Secret, Workstream
    from .types import SecretSet, Session, SessionCreate, SessionFork, SessionMessage, SessionRestore, SessionTurn, Snapshot, Task, Template
    from .types import Sandbox as SandboxInfo


class Hortus:
    """A client of one daemon. Threads may share it.

    ``url`` is that of a ``hortus serve`` (default: HORTUS_HOST, or http://127.0.0.1:7070), ``api_key`` a key (default:
    HORTUS_API_KEY), ``timeout`` how long the daemon may write nothing, ``patience`` how long a broken event stream is opened
    again, both in seconds.
    """

    def __init__(self, url: Optional[str] = None, api_key: Optional[str] = None, *, timeout: float = 600.0, patience: float = 60.0) -> None:
        self._t = t = Transport(url, api_key, timeout, patience)
        self.sandboxes = Sandboxes(t)
        self.snapshots = Snapshots(t)
        self.templates = Templates(t)
        self.tasks = Tasks(t)
        self.runs = Runs(t)
        self.plans = Plans(t)
        self.sessions = Sessions(t)
        self.secrets = Secrets(t)

    def __enter__(self) -> Hortus:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._t.close()

    def info(self) -> DaemonInfo:
        return self._t.call("GET", "/v1/info")

    def request(self, method: str, path: str, *, query: Optional[Mapping[str, Any]] = None, body: Any = None) -> Any:
        """Sends any request of the API and decodes its JSON answer, for what has no method."""
        return self._t.call(method, path, query=query, body=body)


class _Service:
    def __init__(self, transport: Transport) -> None:
        self._t = transport


class Sandboxes(_Service):
    def create(self, request: Optional[CreateSandbox] = None, *, on_wait: Optional[OnWait] = None, idempotency_key: Optional[str] = None) -> Sandbox:
        """Creates a sandbox and returns when it accepts commands. on_wait gets what it waits for, if the host is full."""
        return create_sandbox(self._t, request, on_wait, idempotency_key)

    def get(self, id: str) -> Sandbox:
        """Returns a sandbox by its ID or a unique beginning of it."""
        return Sandbox(self._t, self._t.call("GET", "/v1/sandboxes/" + segment(id))["id"])

    def list(
        self, *, all: bool = False, state: Sequence[str] = (), labels: Optional[Mapping[str, str]] = None, forks_of: Optional[str] = None, lineage: Optional[str] = None
    ) -> List[SandboxInfo]:
        """Lists sandboxes, the newest first; with all, those that have ended too."""
        label = ["%s=%s" % pair for pair in (labels or {}).items()]
        return self._t.list("/v1/sandboxes", {"all": 1 if all else None, "state": list(state), "label": label, "forksOf": forks_of, "lineage": lineage})


class Snapshots(_Service):
    def list(self) -> List[Snapshot]:
        return self._t.list("/v1/snapshots", {})

    def get(self, id: str) -> Snapshot:
        return self._t.call("GET", "/v1/snapshots/" + segment(id))

    def remove(self, id: str) -> Snapshot:
        return self._t.call("DELETE", "/v1/snapshots/" + segment(id))


class Templates(_Service):
    def list(self) -> List[Template]:
        return self._t.call("GET", "/v1/templates")

    def create(self, request: CreateTemplate, *, on_step: Optional[Callable[[str], Any]] = None, idempotency_key: Optional[str] = None) -> Snapshot:
        """Creates a template from commands."""
        for line in self._t.lines("/v1/templates", request, idempotency_key):
            e = line.get("error")
            if e:
                raise HortusError.of(e)
            if line.get("snapshot"):
                return line["snapshot"]
            if line.get("step") and on_step is not None:
                on_step(line["step"])
        raise HortusError("unavailable", "the daemon ended before template %s was created" % request["name"])


class _Work(_Service):
    """What tasks and runs have in common."""

    _path = ""

    def _of(self, id: str) -> str:
        return "%s/%s" % (self._path, segment(id))

    def get(self, id: str) -> Task:
        return self._t.call("GET", self._of(id))

    def list(self, *, limit: int = 100, state: Sequence[str] = (), outcome: Sequence[str] = ()) -> List[Task]:
        """Lists the newest."""
        return self._t.list(self._path, {"state": list(state), "outcome": list(outcome)}, limit)

    def cancel(self, id: str) -> Task:
        """Cancels the work and returns when it has ended."""
        return self._t.call("POST", self._of(id) + "/cancel")

    def output(self, id: str, attempt: int, stream: str) -> Iterator[bytes]:
        """Yields the complete output of an attempt; stream is stdout or stderr."""
        yield from self._t.send("GET", "%s/attempts/%d/%s" % (self._of(id), attempt, segment(stream))).chunks()


class Tasks(_Work):
    _path = "/v1/tasks"

    def create(self, request: CreateTask, *, idempotency_key: Optional[str] = None) -> Task:
        return self._t.call("POST", self._path, body=request, idempotency_key=idempotency_key)

    def reply(self, id: str, request: ReplyTask, *, idempotency_key: Optional[str] = None) -> Task:
        """Answers the question of a task that needs one, and returns the task that continues."""
        return self._t.call("POST", self._of(id) + "/reply", body=request, idempotency_key=idempotency_key)

    def events(self, id: str, after: int = 0) -> Iterator[Event]:
        """Yields the events, stored and live, up to task.finished, also over broken connections."""
        return _follow(self._t, self._of(id), after, "task.finished")

    def diff(self, id: str) -> Iterator[bytes]:
        """Yields the patch of the result."""
        yield from self._t.send("GET", self._of(id) + "/diff").chunks()


class Runs(_Work):
    _path = "/v1/runs"

    def create(self, request: CreateRun, *, idempotency_key: Optional[str] = None) -> Task:
        """Requests a verified program, in a sentence. The run continues in the daemon."""
        return self._t.call("POST", self._path, body=request, idempotency_key=idempotency_key)

    def events(self, id: str, after: int = 0) -> Iterator[RunEvent]:
        """Yields the events, stored and live, up to the verdict, also over broken connections."""
        return _follow(self._t, self._of(id), after, "verdict")


class Plans(_Service):
    """Requests that are divided into items, whose results a queue merges."""

    def _of(self, id: str) -> str:
        return "/v1/plans/" + segment(id)

    def _post(self, id: str, verb: str, body: Any = None) -> Plan:
        return self._t.call("POST", self._of(id) + "/" + verb, body={} if body is None else body)

    def create(self, request: PlanCreate, *, idempotency_key: Optional[str] = None) -> Plan:
        """Begins at once, unless the request has approve."""
        return self._t.call("POST", "/v1/plans", body=request, idempotency_key=idempotency_key)

    def list(self, *, all: bool = False, state: Sequence[str] = ()) -> List[Plan]:
        """Lists plans that are not done, the newest first, without their items."""
        return self._t.call("GET", "/v1/plans", query={"all": 1 if all else None, "state": list(state)})

    def get(self, id: str) -> Plan:
        return self._t.call("GET", self._of(id))

    def approve(self, id: str) -> Plan:
        return self._post(id, "approve")

    def edit(self, id: str, request: PlanEdit) -> Plan:
        """Replaces the items that have not begun."""
        return self._post(id, "edit", request)

    def answer(self, id: str, request: PlanAnswer) -> Plan:
        """Answers an item that asks for files which it may not change."""
        return self._post(id, "answer", request)

    def retry(self, id: str, request: Optional[PlanRetry] = None) -> Plan:
        """Tries failed items again."""
        return self._post(id, "retry", request)

    def replan(self, id: str, request: Optional[PlanReplan] = None) -> Plan:
        """Has the model divide again what is not completed."""
        return self._post(id, "replan", request)

    def pause(self, id: str) -> Plan:
        """Lets what runs end, and begins nothing."""
        return self._post(id, "pause")

    def resume(self, id: str) -> Plan:
        return self._post(id, "resume")

    def cancel(self, id: str) -> Plan:
        """Cancels a plan and returns when nothing of it runs."""
        return self._post(id, "cancel")

    def deliver(self, id: str, request: PlanDeliver) -> Plan:
        """Pushes the branch of a plan that is done, or opens its merge requests."""
        return self._post(id, "deliver", request)

    def unfollow(self, id: str) -> Plan:
        """Ends the looks at the merge requests of a plan."""
        return self._post(id, "unfollow")

    def workstreams(self, repository: Optional[str] = None) -> List[Workstream]:
        """Lists who changes files of a repository, or of all, or waits for that."""
        return self._t.call("GET", "/v1/workstreams", query={"repository": repository})

    def events(self, id: str, after: int = 0) -> Iterator[Event]:
        """Yields the events, stored and live, up to plan.finished, also over broken connections."""
        return _follow(self._t, self._of(id), after, "plan.finished")


class Sessions(_Service):
    """Conversations with agents that keep their files. A session is named by the caller's key."""

    def _of(self, key: str) -> str:
        return "/v1/sessions/" + segment(key)

    def create(self, request: SessionCreate, *, idempotency_key: Optional[str] = None) -> Session:
        return self._t.call("POST", "/v1/sessions", body=request, idempotency_key=idempotency_key)

    def list(self, *, all: bool = False, state: Sequence[str] = ()) -> List[Session]:
        return self._t.call("GET", "/v1/sessions", query={"all": 1 if all else None, "state": list(state)})

    def get(self, key: str) -> Session:
        return self._t.call("GET", self._of(key))

    def send(self, key: str, message: SessionMessage, *, idempotency_key: Optional[str] = None) -> SessionTurn:
        """Sends a message to the agent and returns its turn, which waits or begins."""
        return self._t.call("POST", self._of(key) + "/messages", body=message, idempotency_key=idempotency_key)

    def cancel(self, key: str, *, queued: bool = False) -> Session:
        """Cancels the turn that runs, and with queued those that wait."""
        return self._t.call("POST", self._of(key) + "/cancel", body={"queued": queued})

    def restore(self, key: str, request: SessionRestore) -> Session:
        """Takes a session back to the checkpoint of a turn."""
        return self._t.call("POST", self._of(key) + "/restore", body=request)

    def fork(self, key: str, request: SessionFork, *, idempotency_key: Optional[str] = None) -> Session:
        return self._t.call("POST", self._of(key) + "/fork", body=request, idempotency_key=idempotency_key)

    def close(self, key: str) -> Session:
        """Closes a session and removes all that it has."""
        return self._t.call("DELETE", self._of(key))

    def events(self, key: str, after: int = 0) -> Iterator[Event]:
        return _follow(self._t, self._of(key), after, "session.closed")


class Secrets(_Service):
    """Credentials that requests of sandboxes are sent with. Nothing returns a value."""

    def set(self, name: str, request: SecretSet) -> Secret:
        return self._t.call("PUT", "/v1/secrets/" + segment(name), body=request)

    def get(self, name: str) -> Secret:
        return self._t.call("GET", "/v1/secrets/" + segment(name))

    def remove(self, name: str) -> Secret:
        return self._t.call("DELETE", "/v1/secrets/" + segment(name))

    def list(self) -> List[Secret]:
        return self._t.list("/v1/secrets", {})


def _follow(t: Transport, path: str, after: int, last: str) -> Iterator[Any]:
    def read(m: Message) -> Read:
        e = parse(m.data, path)
        return Read(e, e["seq"], e["type"] == last)

    return t.follow(path + "/events", "after", after, read)
