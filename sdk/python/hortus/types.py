# Code generated from docs/openapi.json by go test ./test/clients -update; DO NOT EDIT.
"""The dictionaries of the HTTP API."""

from typing import TYPE_CHECKING, Any, Dict, List, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired

Ability = TypedDict(
    "Ability",
    {
        "capability": 'str',
        "fix": 'NotRequired[str]',
        "grade": 'NotRequired[str]',
        "ok": 'bool',
        "reason": 'NotRequired[str]',
    },
)

AccountUsage = TypedDict(
    "AccountUsage",
    {
        "account": 'str',
        "bytes": 'int',
        "limitBytes": 'NotRequired[int]',
    },
)

AddEgressRules = TypedDict(
    "AddEgressRules",
    {
        "rules": 'List[EgressRule]',
    },
)

AddRepository = TypedDict(
    "AddRepository",
    {
        "app": 'NotRequired[GitHubApp]',
        "branch": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "prepareEveryMs": 'NotRequired[int]',
        "secret": 'NotRequired[str]',
        "url": 'str',
    },
)

AdoptedEvent = TypedDict(
    "AdoptedEvent",
    {
        "cause": 'str',
        "commands": 'int',
        "from": 'str',
        "state": 'Literal["starting", "running", "paused", "ended", "lost"]',
        "to": 'str',
    },
)

Answer = TypedDict(
    "Answer",
    {
        "question": 'str',
        "reply": 'str',
    },
)

AnswerEgressAsk = TypedDict(
    "AnswerEgressAsk",
    {
        "action": 'Literal["allow", "deny"]',
        "remember": 'NotRequired[bool]',
    },
)

ArchiveReport = TypedDict(
    "ArchiveReport",
    {
        "fix": 'NotRequired[str]',
        "location": 'str',
        "ok": 'bool',
        "reason": 'NotRequired[str]',
    },
)

Attempt = TypedDict(
    "Attempt",
    {
        "artifact": 'CodeArtifact',
        "diagnosis": 'NotRequired[Diagnosis]',
        "endedAt": 'NotRequired[str]',
        "n": 'int',
        "result": 'NotRequired[ExecutionResult]',
        "sandbox": 'NotRequired[str]',
        "startedAt": 'str',
    },
)

AttemptEvent = TypedDict(
    "AttemptEvent",
    {
        "artifact": 'NotRequired[CodeArtifact]',
        "attempt": 'int',
        "diagnosis": 'NotRequired[Diagnosis]',
        "isolation": 'NotRequired[str]',
        "of": 'int',
        "result": 'NotRequired[ExecutionResult]',
        "sandbox": 'NotRequired[str]',
        "unenforced": 'NotRequired[List[Unenforced]]',
        "why": 'NotRequired[str]',
    },
)

BackendReport = TypedDict(
    "BackendReport",
    {
        "abilities": 'List[Ability]',
        "backend": 'str',
    },
)

BestOf = TypedDict(
    "BestOf",
    {
        "depth": 'NotRequired[int]',
        "first": 'NotRequired[bool]',
        "of": 'int',
        "vary": 'NotRequired[List[Variant]]',
    },
)

BrowserControl = TypedDict(
    "BrowserControl",
    {
        "expiresAt": 'str',
        "token": 'str',
    },
)

BrowserEvent = TypedDict(
    "BrowserEvent",
    {
        "action": 'Literal["move", "down", "up", "wheel", "key", "text", "open", "back"]',
        "button": 'NotRequired[str]',
        "clicks": 'NotRequired[int]',
        "code": 'NotRequired[str]',
        "dx": 'NotRequired[float]',
        "dy": 'NotRequired[float]',
        "key": 'NotRequired[str]',
        "keyCode": 'NotRequired[int]',
        "modifiers": 'NotRequired[int]',
        "text": 'NotRequired[str]',
        "x": 'NotRequired[float]',
        "y": 'NotRequired[float]',
    },
)

BrowserFrame = TypedDict(
    "BrowserFrame",
    {
        "height": 'float',
        "image": 'str',
        "target": 'str',
        "title": 'NotRequired[str]',
        "url": 'NotRequired[str]',
        "width": 'float',
    },
)

BrowserInput = TypedDict(
    "BrowserInput",
    {
        "events": 'List[BrowserEvent]',
        "target": 'str',
        "token": 'str',
    },
)

Budget = TypedDict(
    "Budget",
    {
        "costUsd": 'NotRequired[float]',
        "outputBytes": 'NotRequired[int]',
        "steps": 'NotRequired[int]',
        "tokens": 'NotRequired[int]',
        "wallMs": 'NotRequired[int]',
    },
)

BuildFiles = TypedDict(
    "BuildFiles",
    {
        "id": 'str',
    },
)

BuildLine = TypedDict(
    "BuildLine",
    {
        "error": 'NotRequired[Problem]',
        "output": 'NotRequired[str]',
        "snapshot": 'NotRequired[Snapshot]',
        "step": 'NotRequired[str]',
        "type": 'Literal["step", "output", "waiting", "done", "error"]',
    },
)

BuildTemplate = TypedDict(
    "BuildTemplate",
    {
        "args": 'NotRequired[Dict[str, str]]',
        "dockerfile": 'NotRequired[str]',
        "egress": 'NotRequired[EgressPolicy]',
        "files": 'NotRequired[str]',
        "from": 'NotRequired[str]',
        "idePort": 'NotRequired[int]',
        "isolation": 'NotRequired[str]',
        "limits": 'NotRequired[Limits]',
        "name": 'str',
        "noCache": 'NotRequired[bool]',
        "preset": 'NotRequired[Literal["browser", "ide"]]',
        "privateTraffic": 'NotRequired[bool]',
        "ready": 'NotRequired[str]',
        "secrets": 'NotRequired[Dict[str, str]]',
        "start": 'NotRequired[str]',
        "tags": 'NotRequired[List[str]]',
        "target": 'NotRequired[str]',
        "yaml": 'NotRequired[str]',
    },
)

Candidate = TypedDict(
    "Candidate",
    {
        "agent": 'NotRequired[str]',
        "agrees": 'NotRequired[int]',
        "cautions": 'NotRequired[int]',
        "chosen": 'NotRequired[bool]',
        "compared": 'NotRequired[int]',
        "copies": 'NotRequired[Dict[str, str]]',
        "costUsd": 'NotRequired[float]',
        "failing": 'NotRequired[int]',
        "fails": 'NotRequired[int]',
        "files": 'NotRequired[int]',
        "judged": 'NotRequired[bool]',
        "level": 'NotRequired[int]',
        "lines": 'NotRequired[int]',
        "lint": 'NotRequired[str]',
        "model": 'NotRequired[str]',
        "ms": 'NotRequired[int]',
        "n": 'int',
        "oldOnly": 'NotRequired[bool]',
        "outcome": 'NotRequired[str]',
        "parent": 'NotRequired[int]',
        "passed": 'bool',
        "regressions": 'NotRequired[int]',
        "rounds": 'NotRequired[int]',
        "state": 'str',
        "steps": 'NotRequired[int]',
        "strategy": 'NotRequired[str]',
        "temperature": 'NotRequired[float]',
        "tokens": 'NotRequired[int]',
        "unpriced": 'NotRequired[int]',
        "why": 'NotRequired[str]',
        "workspace": 'NotRequired[str]',
    },
)

Caution = TypedDict(
    "Caution",
    {
        "line": 'int',
        "path": 'str',
        "uses": 'str',
    },
)

Ceilings = TypedDict(
    "Ceilings",
    {
        "cpus": 'NotRequired[float]',
        "egress": 'NotRequired[EgressPolicy]',
        "isolations": 'NotRequired[List[str]]',
        "memoryBytes": 'NotRequired[int]',
        "sandboxes": 'NotRequired[int]',
        "ttlMs": 'NotRequired[int]',
    },
)

Check = TypedDict(
    "Check",
    {
        "command": 'str',
        "name": 'str',
    },
)

CheckRepository = TypedDict(
    "CheckRepository",
    {
        "app": 'NotRequired[GitHubApp]',
        "secret": 'NotRequired[str]',
        "url": 'str',
    },
)

CheckResult = TypedDict(
    "CheckResult",
    {
        "name": 'str',
        "output": 'NotRequired[str]',
        "passed": 'bool',
    },
)

CodeArtifact = TypedDict(
    "CodeArtifact",
    {
        "compile": 'NotRequired[str]',
        "expect": 'NotRequired[List[str]]',
        "files": 'List[File]',
        "install": 'NotRequired[str]',
        "installTimeoutMs": 'NotRequired[int]',
        "language": 'str',
        "note": 'NotRequired[str]',
        "output": 'NotRequired[str]',
        "run": 'str',
        "runTimeoutMs": 'NotRequired[int]',
        "shell": 'NotRequired[str]',
    },
)

CodeContext = TypedDict(
    "CodeContext",
    {
        "dir": 'str',
        "id": 'str',
        "language": 'str',
    },
)

CodeEvent = TypedDict(
    "CodeEvent",
    {
        "count": 'NotRequired[int]',
        "formats": 'NotRequired[Dict[str, Any]]',
        "main": 'NotRequired[bool]',
        "name": 'NotRequired[str]',
        "text": 'NotRequired[str]',
        "traceback": 'NotRequired[str]',
        "type": 'str',
        "value": 'NotRequired[str]',
    },
)

CollectRequest = TypedDict(
    "CollectRequest",
    {
        "dryRun": 'NotRequired[bool]',
        "olderThanMs": 'NotRequired[int]',
    },
)

Collected = TypedDict(
    "Collected",
    {
        "bytes": 'int',
        "dryRun": 'bool',
        "items": 'List[CollectedItem]',
    },
)

CollectedItem = TypedDict(
    "CollectedItem",
    {
        "bytes": 'int',
        "error": 'NotRequired[Error]',
        "name": 'str',
        "part": 'str',
        "why": 'str',
    },
)

CommandDefaults = TypedDict(
    "CommandDefaults",
    {
        "command": 'NotRequired[List[str]]',
        "dir": 'NotRequired[str]',
        "entrypoint": 'NotRequired[List[str]]',
        "env": 'NotRequired[Dict[str, str]]',
        "user": 'NotRequired[str]',
        "userRecord": 'NotRequired[UserRecord]',
    },
)

CompactEvent = TypedDict(
    "CompactEvent",
    {
        "agent": 'NotRequired[str]',
        "candidate": 'NotRequired[int]',
        "step": 'int',
        "tokensAfter": 'int',
        "tokensBefore": 'int',
    },
)

ConsoleLink = TypedDict(
    "ConsoleLink",
    {
        "expiresAt": 'str',
        "url": 'str',
    },
)

ContextFile = TypedDict(
    "ContextFile",
    {
        "bytes": 'int',
        "commit": 'str',
        "path": 'str',
        "title": 'str',
        "unusable": 'NotRequired[str]',
    },
)

CreateCodeContext = TypedDict(
    "CreateCodeContext",
    {
        "dir": 'NotRequired[str]',
        "language": 'NotRequired[str]',
    },
)

CreateKey = TypedDict(
    "CreateKey",
    {
        "account": 'str',
        "ceilings": 'NotRequired[Ceilings]',
        "expiresInMs": 'NotRequired[int]',
        "isolation": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "role": 'NotRequired[str]',
    },
)

CreateRun = TypedDict(
    "CreateRun",
    {
        "attempts": 'NotRequired[int]',
        "egress": 'NotRequired[EgressPolicy]',
        "env": 'NotRequired[Dict[str, str]]',
        "files": 'NotRequired[List[InputFile]]',
        "installTimeoutMs": 'NotRequired[int]',
        "isolation": 'NotRequired[str]',
        "limits": 'NotRequired[Limits]',
        "model": 'NotRequired[str]',
        "models": 'NotRequired[Models]',
        "request": 'str',
        "runTimeoutMs": 'NotRequired[int]',
        "schema": 'NotRequired[Any]',
        "setupEgress": 'NotRequired[EgressPolicy]',
        "template": 'NotRequired[str]',
    },
)

CreateSandbox = TypedDict(
    "CreateSandbox",
    {
        "autoResume": 'NotRequired[bool]',
        "egress": 'NotRequired[EgressPolicy]',
        "env": 'NotRequired[Dict[str, str]]',
        "headers": 'NotRequired[List[HeaderRule]]',
        "idePort": 'NotRequired[int]',
        "isolation": 'NotRequired[str]',
        "labels": 'NotRequired[Dict[str, str]]',
        "limits": 'NotRequired[Limits]',
        "onExpiry": 'NotRequired[str]',
        "privateTraffic": 'NotRequired[bool]',
        "secrets": 'NotRequired[List[SecretGrant]]',
        "task": 'NotRequired[str]',
        "template": 'NotRequired[str]',
        "ttlMs": 'NotRequired[int]',
        "workspace": 'NotRequired[str]',
    },
)

CreateSnapshot = TypedDict(
    "CreateSnapshot",
    {
        "copyMemory": 'NotRequired[bool]',
        "defaultEgress": 'NotRequired[EgressPolicy]',
        "filesOnly": 'NotRequired[bool]',
        "name": 'NotRequired[str]',
        "onRestore": 'NotRequired[str]',
        "tags": 'NotRequired[List[str]]',
    },
)

CreateTask = TypedDict(
    "CreateTask",
    {
        "artifact": 'NotRequired[CodeArtifact]',
        "attempts": 'NotRequired[int]',
        "files": 'NotRequired[List[InputFile]]',
        "installTimeoutMs": 'NotRequired[int]',
        "keep": 'NotRequired[bool]',
        "model": 'NotRequired[str]',
        "models": 'NotRequired[Models]',
        "record": 'NotRequired[str]',
        "replay": 'NotRequired[Replay]',
        "repo": 'NotRequired[RepoTask]',
        "request": 'NotRequired[str]',
        "runTimeoutMs": 'NotRequired[int]',
        "sandbox": 'NotRequired[CreateSandbox]',
        "schema": 'NotRequired[Any]',
        "setupEgress": 'NotRequired[EgressPolicy]',
        "setupSecrets": 'NotRequired[List[SecretGrant]]',
    },
)

CreateTemplate = TypedDict(
    "CreateTemplate",
    {
        "defaultEgress": 'NotRequired[EgressPolicy]',
        "egress": 'NotRequired[EgressPolicy]',
        "env": 'NotRequired[Dict[str, str]]',
        "from": 'NotRequired[str]',
        "isolation": 'NotRequired[str]',
        "limits": 'NotRequired[Limits]',
        "name": 'str',
        "onRestore": 'NotRequired[str]',
        "run": 'NotRequired[List[str]]',
        "timeoutMs": 'NotRequired[int]',
    },
)

CreateWorkspace = TypedDict(
    "CreateWorkspace",
    {
        "name": 'NotRequired[str]',
        "quotaBytes": 'NotRequired[int]',
        "shared": 'NotRequired[bool]',
    },
)

CreatedKey = TypedDict(
    "CreatedKey",
    {
        "account": 'str',
        "ceilings": 'NotRequired[Ceilings]',
        "createdAt": 'str',
        "expiresAt": 'NotRequired[str]',
        "hint": 'str',
        "id": 'str',
        "isolation": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "person": 'NotRequired[Person]',
        "revokedAt": 'NotRequired[str]',
        "role": 'str',
        "secret": 'str',
    },
)

DaemonInfo = TypedDict(
    "DaemonInfo",
    {
        "dataDir": 'str',
        "forges": 'NotRequired[str]',
        "leaseMs": 'NotRequired[int]',
        "models": 'NotRequired[str]',
        "node": 'NotRequired[str]',
        "owner": 'str',
        "pid": 'int',
        "sandboxes": 'int',
        "settings": 'DaemonSettings',
        "tasks": 'int',
        "url": 'NotRequired[str]',
        "version": 'Version',
        "warm": 'int',
        "warmWanted": 'int',
    },
)

DaemonSettings = TypedDict(
    "DaemonSettings",
    {
        "idleMs": 'NotRequired[int]',
        "logLevel": 'NotRequired[str]',
    },
)

DebugRequest = TypedDict(
    "DebugRequest",
    {
        "answers": 'NotRequired[List[Answer]]',
        "artifact": 'CodeArtifact',
        "known": 'NotRequired[List[KnownFix]]',
        "plan": 'ExecutionPlan',
        "result": 'ExecutionResult',
        "tried": 'NotRequired[List[CodeArtifact]]',
    },
)

DeliverTask = TypedDict(
    "DeliverTask",
    {
        "draft": 'NotRequired[bool]',
        "mergeRequest": 'NotRequired[bool]',
        "push": 'NotRequired[bool]',
        "remote": 'NotRequired[str]',
        "remotes": 'NotRequired[Dict[str, str]]',
        "stacked": 'NotRequired[bool]',
        "target": 'NotRequired[str]',
    },
)

Delivery = TypedDict(
    "Delivery",
    {
        "branch": 'NotRequired[str]',
        "commit": 'NotRequired[str]',
        "created": 'NotRequired[bool]',
        "draft": 'NotRequired[bool]',
        "error": 'NotRequired[Error]',
        "forge": 'NotRequired[str]',
        "item": 'NotRequired[str]',
        "number": 'NotRequired[int]',
        "policy": 'NotRequired[List[PolicyField]]',
        "pushed": 'NotRequired[str]',
        "refused": 'NotRequired[List[PolicyRefusal]]',
        "target": 'NotRequired[str]',
        "url": 'NotRequired[str]',
    },
)

DeliveryPolicy = TypedDict(
    "DeliveryPolicy",
    {
        "allow": 'NotRequired[List[str]]',
        "branch": 'str',
        "draft": 'NotRequired[bool]',
        "forbidden": 'List[str]',
        "maxFiles": 'int',
        "maxLines": 'int',
        "protected": 'List[str]',
        "targets": 'NotRequired[List[str]]',
    },
)

Destroyed = TypedDict(
    "Destroyed",
    {
        "proof": 'Proof',
        "sandbox": 'Provisioned',
    },
)

Diagnosis = TypedDict(
    "Diagnosis",
    {
        "artifact": 'NotRequired[CodeArtifact]',
        "category": 'str',
        "cause": 'str',
        "question": 'NotRequired[str]',
    },
)

DiskPart = TypedDict(
    "DiskPart",
    {
        "bytes": 'int',
        "count": 'int',
        "limitBytes": 'NotRequired[int]',
        "name": 'str',
        "reclaimableBytes": 'int',
    },
)

DiskUsage = TypedDict(
    "DiskUsage",
    {
        "accounts": 'List[AccountUsage]',
        "bytes": 'int',
        "dataDir": 'str',
        "freeBytes": 'int',
        "parts": 'List[DiskPart]',
        "reclaimableBytes": 'int',
        "totalBytes": 'int',
    },
)

Doctor = TypedDict(
    "Doctor",
    {
        "auto": 'str',
        "autoWhy": 'str',
        "backends": 'List[BackendReport]',
        "dataDir": 'str',
        "forges": 'NotRequired[List[ForgeReport]]',
        "kernel": 'str',
        "layerArchive": 'NotRequired[ArchiveReport]',
        "models": 'List[ModelReport]',
        "store": 'NotRequired[str]',
        "template": 'TemplateReport',
        "user": 'str',
        "version": 'Version',
    },
)

Document = TypedDict(
    "Document",
    {
        "name": 'str',
        "text": 'str',
        "version": 'NotRequired[int]',
    },
)

DrainNode = TypedDict(
    "DrainNode",
    {
        "force": 'NotRequired[bool]',
    },
)

DrainedNode = TypedDict(
    "DrainedNode",
    {
        "already": 'NotRequired[bool]',
        "ended": 'NotRequired[int]',
        "moves": 'NotRequired[List[SandboxMove]]',
        "node": 'FleetNode',
        "sandboxes": 'List[str]',
        "work": 'NotRequired[List[WorkMove]]',
    },
)

EgressAsk = TypedDict(
    "EgressAsk",
    {
        "at": 'str',
        "decision": 'EgressDecision',
        "expires": 'str',
        "id": 'str',
    },
)

EgressDecision = TypedDict(
    "EgressDecision",
    {
        "account": 'NotRequired[str]',
        "address": 'NotRequired[str]',
        "ask": 'NotRequired[str]',
        "at": 'str',
        "cached": 'NotRequired[bool]',
        "class": 'NotRequired[Literal["", "passthrough", "tcp"]]',
        "commands": 'NotRequired[List[str]]',
        "count": 'NotRequired[int]',
        "durationMs": 'NotRequired[int]',
        "hint": 'NotRequired[str]',
        "host": 'str',
        "method": 'NotRequired[str]',
        "op": 'str',
        "path": 'NotRequired[str]',
        "port": 'NotRequired[int]',
        "reason": 'NotRequired[str]',
        "received": 'NotRequired[int]',
        "result": 'Literal["allowed", "denied", "failed", "waiting", "dropped", "alarm"]',
        "rule": 'NotRequired[str]',
        "sandbox": 'str',
        "sent": 'NotRequired[int]',
        "seq": 'NotRequired[int]',
        "status": 'NotRequired[int]',
        "task": 'NotRequired[str]',
    },
)

EgressPolicy = TypedDict(
    "EgressPolicy",
    {
        "ask": 'NotRequired[bool]',
        "headers": 'NotRequired[List[HeaderRule]]',
        "maxBytes": 'NotRequired[int]',
        "maxConnections": 'NotRequired[int]',
        "presets": 'NotRequired[List[str]]',
        "rules": 'NotRequired[List[EgressRule]]',
    },
)

EgressPolicyEvent = TypedDict(
    "EgressPolicyEvent",
    {
        "ask": 'NotRequired[bool]',
        "egress": 'str',
        "presets": 'NotRequired[List[str]]',
        "ruleCount": 'int',
        "rules": 'NotRequired[List[EgressRule]]',
    },
)

EgressRule = TypedDict(
    "EgressRule",
    {
        "action": 'Literal["allow", "deny"]',
        "class": 'NotRequired[Literal["", "passthrough", "tcp"]]',
        "host": 'str',
        "methods": 'NotRequired[List[str]]',
        "paths": 'NotRequired[List[str]]',
        "ports": 'NotRequired[str]',
        "private": 'NotRequired[bool]',
        "source": 'NotRequired[str]',
    },
)

Error = TypedDict(
    "Error",
    {
        "hint": 'NotRequired[str]',
        "kind": 'Literal["invalid", "unauthenticated", "denied", "not_found", "exists", "conflict", "unsupported", "unisolated", "exhausted", "timeout", "canceled", "unavailable", "declined", "internal"]',
        "message": 'str',
        "retryAfterMs": 'NotRequired[int]',
    },
)

EscalationEvent = TypedDict(
    "EscalationEvent",
    {
        "attempt": 'NotRequired[int]',
        "candidate": 'NotRequired[int]',
        "from": 'str',
        "of": 'NotRequired[int]',
        "role": 'str',
        "to": 'str',
        "why": 'str',
    },
)

Event = Union["EventTaskCreated", "EventTaskStarted", "EventTaskPlan", "EventTaskCode", "EventTaskEscalation", "EventTaskAttempt", "EventTaskPhase", "EventTaskOutput", "EventTaskResult", "EventTaskDiagnosis", "EventTaskModel", "EventTaskModelRetry", "EventTaskStep", "EventTaskTier", "EventTaskTool", "EventTaskSay", "EventTaskCandidate", "EventTaskCompact", "EventTaskTodo", "EventTaskLeft", "EventTaskResumed", "EventTaskWaiting", "EventTaskOverlap", "EventTaskRetry", "EventTaskLessons", "EventTaskCancel", "EventTaskFinished", "EventSandboxState", "EventSandboxUpdated", "EventSandboxWaiting", "EventSandboxSnapshot", "EventSandboxForked", "EventSandboxAdopted", "EventSandboxEgress", "EventSandboxEgressPolicy", "EventSandboxExec", "EventSandboxExecEnd", "EventSessionCreated", "EventSessionMessage", "EventSessionRemoved", "EventSessionTurn", "EventSessionRestored", "EventSessionAnswer", "EventSessionState", "EventSessionBack", "EventSessionForked", "EventSessionClosed", "EventPlanCreated", "EventPlanPlanned", "EventPlanState", "EventPlanItem", "EventPlanEdited", "EventPlanAmendment", "EventPlanFinished", "EventHookReceived", "EventHookStarted", "EventHookEnded", "EventHookComment"]

EventHookComment = TypedDict(
    "EventHookComment",
    {
        "at": 'str',
        "data": 'NotRequired[HookEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["hook.comment"]',
    },
)

EventHookEnded = TypedDict(
    "EventHookEnded",
    {
        "at": 'str',
        "data": 'NotRequired[HookEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["hook.ended"]',
    },
)

EventHookReceived = TypedDict(
    "EventHookReceived",
    {
        "at": 'str',
        "data": 'NotRequired[HookEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["hook.received"]',
    },
)

EventHookStarted = TypedDict(
    "EventHookStarted",
    {
        "at": 'str',
        "data": 'NotRequired[HookEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["hook.started"]',
    },
)

EventPlanAmendment = TypedDict(
    "EventPlanAmendment",
    {
        "at": 'str',
        "data": 'NotRequired[PlanAmendmentEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.amendment"]',
    },
)

EventPlanCreated = TypedDict(
    "EventPlanCreated",
    {
        "at": 'str',
        "data": 'NotRequired[Plan]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.created"]',
    },
)

EventPlanEdited = TypedDict(
    "EventPlanEdited",
    {
        "at": 'str',
        "data": 'NotRequired[PlanEditedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.edited"]',
    },
)

EventPlanFinished = TypedDict(
    "EventPlanFinished",
    {
        "at": 'str',
        "data": 'NotRequired[Plan]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.finished"]',
    },
)

EventPlanItem = TypedDict(
    "EventPlanItem",
    {
        "at": 'str',
        "data": 'NotRequired[PlanItemEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.item"]',
    },
)

EventPlanPlanned = TypedDict(
    "EventPlanPlanned",
    {
        "at": 'str',
        "data": 'NotRequired[PlanPlannedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.planned"]',
    },
)

EventPlanState = TypedDict(
    "EventPlanState",
    {
        "at": 'str',
        "data": 'NotRequired[PlanStateEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan.state"]',
    },
)

EventSandboxAdopted = TypedDict(
    "EventSandboxAdopted",
    {
        "at": 'str',
        "data": 'NotRequired[AdoptedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.adopted"]',
    },
)

EventSandboxEgress = TypedDict(
    "EventSandboxEgress",
    {
        "at": 'str',
        "data": 'NotRequired[EgressDecision]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.egress"]',
    },
)

EventSandboxEgressPolicy = TypedDict(
    "EventSandboxEgressPolicy",
    {
        "at": 'str',
        "data": 'NotRequired[EgressPolicyEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.egress_policy"]',
    },
)

EventSandboxExec = TypedDict(
    "EventSandboxExec",
    {
        "at": 'str',
        "data": 'NotRequired[Exec]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.exec"]',
    },
)

EventSandboxExecEnd = TypedDict(
    "EventSandboxExecEnd",
    {
        "at": 'str',
        "data": 'NotRequired[Exec]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.exec_end"]',
    },
)

EventSandboxForked = TypedDict(
    "EventSandboxForked",
    {
        "at": 'str',
        "data": 'NotRequired[ForkEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.forked"]',
    },
)

EventSandboxSnapshot = TypedDict(
    "EventSandboxSnapshot",
    {
        "at": 'str',
        "data": 'NotRequired[Snapshot]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.snapshot"]',
    },
)

EventSandboxState = TypedDict(
    "EventSandboxState",
    {
        "at": 'str',
        "data": 'NotRequired[SandboxStateEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.state"]',
    },
)

EventSandboxUpdated = TypedDict(
    "EventSandboxUpdated",
    {
        "at": 'str',
        "data": 'NotRequired[UpdatedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.updated"]',
    },
)

EventSandboxWaiting = TypedDict(
    "EventSandboxWaiting",
    {
        "at": 'str',
        "data": 'NotRequired[WaitingEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["sandbox.waiting"]',
    },
)

EventSessionAnswer = TypedDict(
    "EventSessionAnswer",
    {
        "at": 'str',
        "data": 'NotRequired[SessionTurn]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.answer"]',
    },
)

EventSessionBack = TypedDict(
    "EventSessionBack",
    {
        "at": 'str',
        "data": 'NotRequired[SessionBackEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.back"]',
    },
)

EventSessionClosed = TypedDict(
    "EventSessionClosed",
    {
        "at": 'str',
        "data": 'NotRequired[Session]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.closed"]',
    },
)

EventSessionCreated = TypedDict(
    "EventSessionCreated",
    {
        "at": 'str',
        "data": 'NotRequired[Session]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.created"]',
    },
)

EventSessionForked = TypedDict(
    "EventSessionForked",
    {
        "at": 'str',
        "data": 'NotRequired[SessionForkedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.forked"]',
    },
)

EventSessionMessage = TypedDict(
    "EventSessionMessage",
    {
        "at": 'str',
        "data": 'NotRequired[SessionTurn]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.message"]',
    },
)

EventSessionRemoved = TypedDict(
    "EventSessionRemoved",
    {
        "at": 'str',
        "data": 'NotRequired[SessionTurn]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.removed"]',
    },
)

EventSessionRestored = TypedDict(
    "EventSessionRestored",
    {
        "at": 'str',
        "data": 'NotRequired[SessionRestoredEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.restored"]',
    },
)

EventSessionState = TypedDict(
    "EventSessionState",
    {
        "at": 'str',
        "data": 'NotRequired[SessionStateEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.state"]',
    },
)

EventSessionTurn = TypedDict(
    "EventSessionTurn",
    {
        "at": 'str',
        "data": 'NotRequired[SessionTurn]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["session.turn"]',
    },
)

EventTaskAttempt = TypedDict(
    "EventTaskAttempt",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.attempt"]',
    },
)

EventTaskCancel = TypedDict(
    "EventTaskCancel",
    {
        "at": 'str',
        "data": 'NotRequired[Dict[str, Any]]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.cancel"]',
    },
)

EventTaskCandidate = TypedDict(
    "EventTaskCandidate",
    {
        "at": 'str',
        "data": 'NotRequired[Candidate]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.candidate"]',
    },
)

EventTaskCode = TypedDict(
    "EventTaskCode",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.code"]',
    },
)

EventTaskCompact = TypedDict(
    "EventTaskCompact",
    {
        "at": 'str',
        "data": 'NotRequired[CompactEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.compact"]',
    },
)

EventTaskCreated = TypedDict(
    "EventTaskCreated",
    {
        "at": 'str',
        "data": 'NotRequired[Task]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.created"]',
    },
)

EventTaskDiagnosis = TypedDict(
    "EventTaskDiagnosis",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.diagnosis"]',
    },
)

EventTaskEscalation = TypedDict(
    "EventTaskEscalation",
    {
        "at": 'str',
        "data": 'NotRequired[EscalationEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.escalation"]',
    },
)

EventTaskFinished = TypedDict(
    "EventTaskFinished",
    {
        "at": 'str',
        "data": 'NotRequired[Task]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.finished"]',
    },
)

EventTaskLeft = TypedDict(
    "EventTaskLeft",
    {
        "at": 'str',
        "data": 'NotRequired[LeftEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.left"]',
    },
)

EventTaskLessons = TypedDict(
    "EventTaskLessons",
    {
        "at": 'str',
        "data": 'NotRequired[LessonsEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.lessons"]',
    },
)

EventTaskModel = TypedDict(
    "EventTaskModel",
    {
        "at": 'str',
        "data": 'NotRequired[ModelEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.model"]',
    },
)

EventTaskModelRetry = TypedDict(
    "EventTaskModelRetry",
    {
        "at": 'str',
        "data": 'NotRequired[ModelRetryEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.model_retry"]',
    },
)

EventTaskOutput = TypedDict(
    "EventTaskOutput",
    {
        "at": 'str',
        "data": 'NotRequired[OutputEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.output"]',
    },
)

EventTaskOverlap = TypedDict(
    "EventTaskOverlap",
    {
        "at": 'str',
        "data": 'NotRequired[OverlapEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.overlap"]',
    },
)

EventTaskPhase = TypedDict(
    "EventTaskPhase",
    {
        "at": 'str',
        "data": 'NotRequired[PhaseEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.phase"]',
    },
)

EventTaskPlan = TypedDict(
    "EventTaskPlan",
    {
        "at": 'str',
        "data": 'NotRequired[ExecutionPlan]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.plan"]',
    },
)

EventTaskResult = TypedDict(
    "EventTaskResult",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.result"]',
    },
)

EventTaskResumed = TypedDict(
    "EventTaskResumed",
    {
        "at": 'str',
        "data": 'NotRequired[ResumedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.resumed"]',
    },
)

EventTaskRetry = TypedDict(
    "EventTaskRetry",
    {
        "at": 'str',
        "data": 'NotRequired[RetryEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.retry"]',
    },
)

EventTaskSay = TypedDict(
    "EventTaskSay",
    {
        "at": 'str',
        "data": 'NotRequired[SayEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.say"]',
    },
)

EventTaskStarted = TypedDict(
    "EventTaskStarted",
    {
        "at": 'str',
        "data": 'NotRequired[Dict[str, Any]]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.started"]',
    },
)

EventTaskStep = TypedDict(
    "EventTaskStep",
    {
        "at": 'str',
        "data": 'NotRequired[RepoStepEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.step"]',
    },
)

EventTaskTier = TypedDict(
    "EventTaskTier",
    {
        "at": 'str',
        "data": 'NotRequired[TierEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.tier"]',
    },
)

EventTaskTodo = TypedDict(
    "EventTaskTodo",
    {
        "at": 'str',
        "data": 'NotRequired[TodoEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.todo"]',
    },
)

EventTaskTool = TypedDict(
    "EventTaskTool",
    {
        "at": 'str',
        "data": 'NotRequired[ToolEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.tool"]',
    },
)

EventTaskWaiting = TypedDict(
    "EventTaskWaiting",
    {
        "at": 'str',
        "data": 'NotRequired[WaitingEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["task.waiting"]',
    },
)

ExampleDelivery = TypedDict(
    "ExampleDelivery",
    {
        "branch": 'str',
        "draft": 'NotRequired[bool]',
        "of": 'str',
        "target": 'NotRequired[str]',
    },
)

Exec = TypedDict(
    "Exec",
    {
        "args": 'List[str]',
        "argsBytes": 'NotRequired[int]',
        "dir": 'NotRequired[str]',
        "endedAt": 'NotRequired[str]',
        "exit": 'NotRequired[Exit]',
        "id": 'str',
        "outputBytes": 'int',
        "pid": 'NotRequired[int]',
        "sandbox": 'str',
        "startedAt": 'str',
        "state": 'Literal["running", "exited", "unknown"]',
        "timeoutMs": 'NotRequired[int]',
        "user": 'str',
    },
)

ExecOutput = TypedDict(
    "ExecOutput",
    {
        "data": 'str',
        "offset": 'int',
        "stream": 'str',
    },
)

ExecRequest = TypedDict(
    "ExecRequest",
    {
        "args": 'List[str]',
        "dir": 'NotRequired[str]',
        "env": 'NotRequired[Dict[str, str]]',
        "pty": 'NotRequired[PTYSize]',
        "stdin": 'NotRequired[bool]',
        "tag": 'NotRequired[str]',
        "timeoutMs": 'NotRequired[int]',
        "user": 'NotRequired[str]',
    },
)

ExecuteRequest = TypedDict(
    "ExecuteRequest",
    {
        "code": 'str',
        "language": 'NotRequired[str]',
        "timeoutSeconds": 'NotRequired[int]',
    },
)

Executed = TypedDict(
    "Executed",
    {
        "cause": 'NotRequired[str]',
        "exec": 'str',
        "exitCode": 'int',
        "ms": 'int',
        "signal": 'NotRequired[str]',
        "stderr": 'str',
        "stderrBytes": 'int',
        "stdout": 'str',
        "stdoutBytes": 'int',
        "truncated": 'NotRequired[bool]',
    },
)

ExecutionPlan = TypedDict(
    "ExecutionPlan",
    {
        "checks": 'NotRequired[List[Check]]',
        "compile": 'NotRequired[str]',
        "dependencies": 'NotRequired[List[str]]',
        "files": 'NotRequired[List[str]]',
        "inputs": 'NotRequired[List[InputFile]]',
        "language": 'str',
        "output": 'str',
        "parameters": 'NotRequired[Dict[str, str]]',
        "run": 'NotRequired[str]',
        "schema": 'NotRequired[Any]',
        "shell": 'str',
        "task": 'str',
    },
)

ExecutionResult = TypedDict(
    "ExecutionResult",
    {
        "category": 'NotRequired[str]',
        "cautions": 'NotRequired[List[Caution]]',
        "checks": 'NotRequired[List[CheckResult]]',
        "compileMs": 'NotRequired[int]',
        "createMs": 'NotRequired[int]',
        "detail": 'NotRequired[str]',
        "exit": 'Exit',
        "installMs": 'NotRequired[int]',
        "isolation": 'NotRequired[str]',
        "leftOut": 'NotRequired[List[str]]',
        "missing": 'NotRequired[str]',
        "ok": 'bool',
        "outputFiles": 'NotRequired[List[File]]',
        "phase": 'str',
        "runMs": 'NotRequired[int]',
        "sandbox": 'NotRequired[str]',
        "stderr": 'str',
        "stderrBytes": 'int',
        "stdout": 'str',
        "stdoutBytes": 'int',
    },
)

Exit = TypedDict(
    "Exit",
    {
        "cause": 'NotRequired[str]',
        "code": 'int',
        "signal": 'NotRequired[str]',
    },
)

FailureCount = TypedDict(
    "FailureCount",
    {
        "attempts": 'int',
        "category": 'str',
        "tasks": 'int',
    },
)

File = TypedDict(
    "File",
    {
        "base64": 'NotRequired[str]',
        "content": 'str',
        "executable": 'NotRequired[bool]',
        "path": 'str',
    },
)

FileChange = TypedDict(
    "FileChange",
    {
        "added": 'int',
        "binary": 'NotRequired[bool]',
        "deleted": 'int',
        "oldPath": 'NotRequired[str]',
        "path": 'str',
        "size": 'NotRequired[int]',
        "status": 'str',
        "test": 'NotRequired[bool]',
    },
)

FileInfo = TypedDict(
    "FileInfo",
    {
        "group": 'NotRequired[str]',
        "mode": 'int',
        "modifiedAt": 'NotRequired[str]',
        "name": 'str',
        "owner": 'NotRequired[str]',
        "path": 'str',
        "size": 'int',
        "target": 'NotRequired[str]',
        "type": 'str',
    },
)

FilePolicy = TypedDict(
    "FilePolicy",
    {
        "offLimits": 'NotRequired[List[str]]',
        "readOnly": 'NotRequired[List[str]]',
        "writable": 'NotRequired[List[str]]',
    },
)

Fleet = TypedDict(
    "Fleet",
    {
        "already": 'NotRequired[bool]',
        "initialized": 'bool',
        "nodes": 'List[FleetNode]',
        "self": 'str',
    },
)

FleetNode = TypedDict(
    "FleetNode",
    {
        "address": 'NotRequired[str]',
        "beatAt": 'str',
        "capacity": 'NodeCapacity',
        "gone": 'NotRequired[bool]',
        "id": 'str',
        "name": 'str',
        "silentMs": 'int',
        "state": 'str',
        "unreached": 'NotRequired[str]',
    },
)

ForgeReport = TypedDict(
    "ForgeReport",
    {
        "fix": 'NotRequired[str]',
        "host": 'str',
        "kind": 'str',
        "ok": 'bool',
        "reason": 'NotRequired[str]',
        "token": 'str',
    },
)

ForkChild = TypedDict(
    "ForkChild",
    {
        "error": 'NotRequired[Error]',
        "sandbox": 'NotRequired[Sandbox]',
    },
)

ForkEvent = TypedDict(
    "ForkEvent",
    {
        "children": 'List[str]',
        "failed": 'NotRequired[int]',
        "kind": 'Literal["memory", "files"]',
        "memory": 'NotRequired[str]',
        "pausedMs": 'int',
    },
)

ForkResult = TypedDict(
    "ForkResult",
    {
        "children": 'List[ForkChild]',
        "kind": 'Literal["memory", "files"]',
        "memory": 'NotRequired[str]',
        "memoryWhy": 'NotRequired[str]',
        "parent": 'str',
        "pausedMs": 'int',
        "why": 'NotRequired[str]',
    },
)

ForkSandbox = TypedDict(
    "ForkSandbox",
    {
        "copyMemory": 'NotRequired[bool]',
        "count": 'NotRequired[int]',
        "egress": 'NotRequired[EgressPolicy]',
        "env": 'NotRequired[Dict[str, str]]',
        "filesOnly": 'NotRequired[bool]',
        "labels": 'NotRequired[Dict[str, str]]',
        "onRestore": 'NotRequired[str]',
        "secrets": 'NotRequired[List[str]]',
        "ttlMs": 'NotRequired[int]',
    },
)

ForkWorkspace = TypedDict(
    "ForkWorkspace",
    {
        "name": 'NotRequired[str]',
    },
)

Gate = TypedDict(
    "Gate",
    {
        "command": 'str',
        "exit": 'Exit',
        "isolation": 'NotRequired[str]',
        "ms": 'int',
        "output": 'NotRequired[str]',
        "outputBytes": 'NotRequired[int]',
        "passed": 'bool',
        "reused": 'NotRequired[ReusedGate]',
        "sandbox": 'NotRequired[str]',
        "tests": 'NotRequired[TestReport]',
    },
)

GateCandidate = TypedDict(
    "GateCandidate",
    {
        "chosen": 'NotRequired[bool]',
        "command": 'str',
        "from": 'str',
        "why": 'str',
    },
)

GitHubApp = TypedDict(
    "GitHubApp",
    {
        "id": 'int',
        "installation": 'NotRequired[int]',
    },
)

Given = TypedDict(
    "Given",
    {
        "lessons": 'int',
        "verified": 'int',
    },
)

HeaderRule = TypedDict(
    "HeaderRule",
    {
        "headers": 'Dict[str, str]',
        "host": 'str',
        "port": 'NotRequired[int]',
    },
)

HookAnswer = TypedDict(
    "HookAnswer",
    {
        "reason": 'NotRequired[str]',
        "task": 'NotRequired[str]',
    },
)

HookEvent = TypedDict(
    "HookEvent",
    {
        "at": 'str',
        "budgetUsd": 'NotRequired[float]',
        "cause": 'str',
        "commentError": 'NotRequired[str]',
        "delivery": 'NotRequired[str]',
        "issue": 'int',
        "outcome": 'NotRequired[Literal["verified", "needs_human", "declined", "canceled", "failed", "lost", "answered"]]',
        "overBudget": 'NotRequired[bool]',
        "reason": 'NotRequired[str]',
        "repository": 'str',
        "sender": 'str',
        "state": 'str',
        "task": 'NotRequired[str]',
        "told": 'NotRequired[int]',
        "url": 'NotRequired[str]',
    },
)

Identity = TypedDict(
    "Identity",
    {
        "email": 'str',
        "name": 'str',
    },
)

Image = TypedDict(
    "Image",
    {
        "bytes": 'int',
        "command": 'NotRequired[List[str]]',
        "createdAt": 'str',
        "digest": 'str',
        "dropped": 'NotRequired[int]',
        "entrypoint": 'NotRequired[List[str]]',
        "env": 'NotRequired[List[str]]',
        "id": 'str',
        "isolation": 'NotRequired[str]',
        "layers": 'List[str]',
        "name": 'NotRequired[str]',
        "platform": 'str',
        "reference": 'str',
        "skipped": 'NotRequired[int]',
        "usedAt": 'str',
        "user": 'str',
        "workingDir": 'NotRequired[str]',
    },
)

ImageLine = TypedDict(
    "ImageLine",
    {
        "error": 'NotRequired[Problem]',
        "image": 'NotRequired[Image]',
        "step": 'NotRequired[str]',
        "type": 'Literal["step", "output", "waiting", "done", "error"]',
    },
)

ImageMark = TypedDict(
    "ImageMark",
    {
        "backend": 'str',
        "cpu": 'NotRequired[str]',
        "guest": 'NotRequired[str]',
        "kernel": 'NotRequired[str]',
    },
)

InputFile = TypedDict(
    "InputFile",
    {
        "content": 'NotRequired[str]',
        "head": 'NotRequired[str]',
        "path": 'str',
        "size": 'NotRequired[int]',
    },
)

ItemEvidence = TypedDict(
    "ItemEvidence",
    {
        "acceptance": 'NotRequired[str]',
        "commit": 'NotRequired[str]',
        "costUsd": 'NotRequired[float]',
        "gate": 'NotRequired[str]',
        "id": 'str',
        "ms": 'NotRequired[int]',
        "needs": 'NotRequired[List[str]]',
        "order": 'NotRequired[int]',
        "request": 'NotRequired[str]',
        "state": 'str',
        "title": 'str',
        "why": 'NotRequired[str]',
    },
)

ItemTask = TypedDict(
    "ItemTask",
    {
        "acceptance": 'NotRequired[str]',
        "branch": 'NotRequired[str]',
        "check": 'NotRequired[str]',
        "delivered": 'NotRequired[Delivery]',
        "item": 'str',
        "items": 'NotRequired[List[ItemEvidence]]',
        "plan": 'str',
        "stack": 'NotRequired[List[Delivery]]',
        "stacked": 'NotRequired[bool]',
        "start": 'NotRequired[str]',
    },
)

Key = TypedDict(
    "Key",
    {
        "account": 'str',
        "ceilings": 'NotRequired[Ceilings]',
        "createdAt": 'str',
        "expiresAt": 'NotRequired[str]',
        "hint": 'str',
        "id": 'str',
        "isolation": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "person": 'NotRequired[Person]',
        "revokedAt": 'NotRequired[str]',
        "role": 'str',
    },
)

Killed = TypedDict(
    "Killed",
    {
        "proof": 'Proof',
        "sandbox": 'Sandbox',
    },
)

KilledExec = TypedDict(
    "KilledExec",
    {
        "exec": 'Exec',
        "how": 'str',
    },
)

KnownFix = TypedDict(
    "KnownFix",
    {
        "failure": 'str',
        "fix": 'str',
    },
)

LeftEvent = TypedDict(
    "LeftEvent",
    {
        "cut": 'NotRequired[bool]',
        "why": 'str',
    },
)

LeftOut = TypedDict(
    "LeftOut",
    {
        "files": 'int',
        "path": 'str',
    },
)

Lesson = TypedDict(
    "Lesson",
    {
        "failure": 'str',
        "fingerprint": 'str',
        "fix": 'str',
        "helped": 'int',
        "id": 'str',
        "learnedAt": 'str',
        "offered": 'int',
        "offeredAt": 'NotRequired[str]',
        "scope": 'str',
        "seen": 'int',
        "task": 'str',
        "vector": 'NotRequired[str]',
    },
)

LessonOffer = TypedDict(
    "LessonOffer",
    {
        "by": 'NotRequired[str]',
        "failure": 'str',
        "id": 'str',
        "task": 'str',
    },
)

LessonStats = TypedDict(
    "LessonStats",
    {
        "by": 'NotRequired[Dict[str, Given]]',
        "with": 'Overcome',
        "without": 'Overcome',
    },
)

LessonsEvent = TypedDict(
    "LessonsEvent",
    {
        "attempt": 'int',
        "lessons": 'List[LessonOffer]',
    },
)

Library = TypedDict(
    "Library",
    {
        "common": 'NotRequired[bool]',
        "install": 'NotRequired[str]',
        "language": 'str',
        "name": 'str',
        "present": 'bool',
        "version": 'NotRequired[str]',
    },
)

Limits = TypedDict(
    "Limits",
    {
        "cpuTimeMs": 'NotRequired[int]',
        "cpus": 'NotRequired[float]',
        "diskBytes": 'NotRequired[int]',
        "diskWriteRate": 'NotRequired[int]',
        "memoryBytes": 'NotRequired[int]',
        "outputBytes": 'NotRequired[int]',
        "processes": 'NotRequired[int]',
    },
)

Listener = TypedDict(
    "Listener",
    {
        "command": 'str',
        "pid": 'int',
        "port": 'int',
    },
)

MissingCount = TypedDict(
    "MissingCount",
    {
        "language": 'NotRequired[str]',
        "name": 'str',
        "tasks": 'int',
    },
)

ModelEvent = TypedDict(
    "ModelEvent",
    {
        "agent": 'NotRequired[str]',
        "candidate": 'NotRequired[int]',
        "error": 'NotRequired[str]',
        "model": 'str',
        "ms": 'int',
        "role": 'str',
        "usage": 'NotRequired[Usage]',
    },
)

ModelReport = TypedDict(
    "ModelReport",
    {
        "baseUrl": 'NotRequired[str]',
        "default": 'NotRequired[bool]',
        "fix": 'NotRequired[str]',
        "model": 'NotRequired[str]',
        "name": 'str',
        "ok": 'bool',
        "reason": 'NotRequired[str]',
        "source": 'NotRequired[str]',
    },
)

ModelRetryEvent = TypedDict(
    "ModelRetryEvent",
    {
        "agent": 'NotRequired[str]',
        "attempt": 'int',
        "candidate": 'NotRequired[int]',
        "error": 'str',
        "model": 'str',
        "of": 'int',
        "role": 'str',
        "waitMs": 'int',
    },
)

ModelUse = TypedDict(
    "ModelUse",
    {
        "calls": 'int',
        "errors": 'int',
        "model": 'str',
        "ms": 'int',
        "usage": 'NotRequired[Usage]',
    },
)

Models = TypedDict(
    "Models",
    {
        "coder": 'NotRequired[str]',
        "debugger": 'NotRequired[str]',
        "large": 'NotRequired[str]',
        "planner": 'NotRequired[str]',
        "small": 'NotRequired[str]',
    },
)

NodeCapacity = TypedDict(
    "NodeCapacity",
    {
        "clockAheadMs": 'NotRequired[int]',
        "cpus": 'NotRequired[int]',
        "diskFull": 'NotRequired[bool]',
        "full": 'NotRequired[bool]',
        "isolations": 'NotRequired[List[str]]',
        "load": 'NotRequired[float]',
        "memoryBudget": 'NotRequired[int]',
        "memoryPromised": 'NotRequired[int]',
        "noArchive": 'NotRequired[bool]',
        "restores": 'NotRequired[List[str]]',
        "sandboxes": 'int',
        "tasks": 'NotRequired[int]',
        "templates": 'NotRequired[List[str]]',
        "version": 'NotRequired[str]',
        "waiting": 'NotRequired[int]',
    },
)

NotInstalled = TypedDict(
    "NotInstalled",
    {
        "instead": 'NotRequired[str]',
        "language": 'NotRequired[str]',
        "program": 'NotRequired[str]',
        "why": 'str',
    },
)

OutputEvent = TypedDict(
    "OutputEvent",
    {
        "attempt": 'int',
        "data": 'str',
        "phase": 'str',
        "stream": 'str',
    },
)

Overcome = TypedDict(
    "Overcome",
    {
        "passes": 'int',
        "tasks": 'int',
        "verified": 'int',
    },
)

OverlapEvent = TypedDict(
    "OverlapEvent",
    {
        "waits": 'NotRequired[bool]',
        "with": 'List[Workstream]',
    },
)

PTYSize = TypedDict(
    "PTYSize",
    {
        "cols": 'int',
        "rows": 'int',
    },
)

PauseSandbox = TypedDict(
    "PauseSandbox",
    {
        "toDisk": 'NotRequired[bool]',
    },
)

Person = TypedDict(
    "Person",
    {
        "email": 'str',
        "issuer": 'str',
        "subject": 'str',
    },
)

PhaseEvent = TypedDict(
    "PhaseEvent",
    {
        "attempt": 'int',
        "command": 'str',
        "phase": 'str',
    },
)

PhaseTime = TypedDict(
    "PhaseTime",
    {
        "count": 'int',
        "phase": 'str',
        "totalMs": 'int',
    },
)

Plan = TypedDict(
    "Plan",
    {
        "account": 'NotRequired[str]',
        "base": 'NotRequired[str]',
        "branch": 'str',
        "checked": 'NotRequired[str]',
        "commit": 'NotRequired[str]',
        "counts": 'Dict[str, int]',
        "createdAt": 'str',
        "delivered": 'NotRequired[Delivery]',
        "endedAt": 'NotRequired[str]',
        "error": 'NotRequired[Error]',
        "follow": 'NotRequired[PlanFollow]',
        "head": 'NotRequired[str]',
        "id": 'str',
        "items": 'NotRequired[List[PlanProgress]]',
        "key": 'NotRequired[str]',
        "outcome": 'NotRequired[Literal["verified", "needs_human", "declined", "canceled", "failed", "lost", "answered"]]',
        "owner": 'NotRequired[str]',
        "parallel": 'int',
        "planner": 'NotRequired[str]',
        "receipt": 'NotRequired[Receipt]',
        "rejected": 'NotRequired[List[str]]',
        "stack": 'NotRequired[List[Delivery]]',
        "stacked": 'NotRequired[bool]',
        "startedAt": 'NotRequired[str]',
        "state": 'Literal["planning", "proposed", "queued", "running", "paused", "done"]',
        "task": 'CreateTask',
        "usage": 'NotRequired[Usage]',
        "version": 'int',
        "why": 'NotRequired[str]',
    },
)

PlanAmendment = TypedDict(
    "PlanAmendment",
    {
        "answer": 'NotRequired[str]',
        "by": 'NotRequired[str]',
        "paths": 'List[str]',
        "reason": 'NotRequired[str]',
        "why": 'NotRequired[str]',
    },
)

PlanAmendmentEvent = TypedDict(
    "PlanAmendmentEvent",
    {
        "answer": 'NotRequired[str]',
        "by": 'NotRequired[str]',
        "item": 'str',
        "paths": 'List[str]',
        "reason": 'NotRequired[str]',
        "why": 'NotRequired[str]',
    },
)

PlanAnswer = TypedDict(
    "PlanAnswer",
    {
        "grant": 'bool',
        "item": 'str',
    },
)

PlanCreate = TypedDict(
    "PlanCreate",
    {
        "approve": 'NotRequired[bool]',
        "follow": 'NotRequired[bool]',
        "followRounds": 'NotRequired[int]',
        "items": 'NotRequired[List[PlanItem]]',
        "parallel": 'NotRequired[int]',
        "stacked": 'NotRequired[bool]',
        "task": 'CreateTask',
    },
)

PlanDeliver = TypedDict(
    "PlanDeliver",
    {
        "draft": 'NotRequired[bool]',
        "follow": 'NotRequired[bool]',
        "followRounds": 'NotRequired[int]',
        "mergeRequest": 'NotRequired[bool]',
        "push": 'NotRequired[bool]',
        "remote": 'NotRequired[str]',
        "remotes": 'NotRequired[Dict[str, str]]',
        "stacked": 'NotRequired[bool]',
        "target": 'NotRequired[str]',
    },
)

PlanEdit = TypedDict(
    "PlanEdit",
    {
        "items": 'List[PlanItem]',
        "version": 'NotRequired[int]',
    },
)

PlanEditedEvent = TypedDict(
    "PlanEditedEvent",
    {
        "items": 'List[str]',
        "version": 'int',
    },
)

PlanFollow = TypedDict(
    "PlanFollow",
    {
        "checks": 'NotRequired[int]',
        "comments": 'NotRequired[int]',
        "ended": 'NotRequired[str]',
        "error": 'NotRequired[Error]',
        "ignored": 'NotRequired[int]',
        "retryAt": 'NotRequired[str]',
        "round": 'int',
        "rounds": 'int',
    },
)

PlanItem = TypedDict(
    "PlanItem",
    {
        "acceptance": 'NotRequired[str]',
        "agent": 'NotRequired[str]',
        "context": 'NotRequired[List[str]]',
        "creates": 'NotRequired[List[str]]',
        "id": 'str',
        "minutes": 'NotRequired[int]',
        "model": 'NotRequired[str]',
        "needs": 'NotRequired[List[str]]',
        "request": 'str',
        "title": 'NotRequired[str]',
        "touches": 'NotRequired[List[str]]',
    },
)

PlanItemEvent = TypedDict(
    "PlanItemEvent",
    {
        "commit": 'NotRequired[str]',
        "item": 'str',
        "phase": 'NotRequired[Literal["works", "merges", "checks", "asks"]]',
        "state": 'Literal["pending", "in_progress", "completed", "skipped", "failed"]',
        "task": 'NotRequired[str]',
        "why": 'NotRequired[str]',
    },
)

PlanPlannedEvent = TypedDict(
    "PlanPlannedEvent",
    {
        "items": 'NotRequired[List[str]]',
        "refused": 'NotRequired[str]',
        "try": 'int',
    },
)

PlanProgress = TypedDict(
    "PlanProgress",
    {
        "acceptance": 'NotRequired[str]',
        "agent": 'NotRequired[str]',
        "amendments": 'NotRequired[List[PlanAmendment]]',
        "commit": 'NotRequired[str]',
        "context": 'NotRequired[List[str]]',
        "creates": 'NotRequired[List[str]]',
        "endedAt": 'NotRequired[str]',
        "gate": 'NotRequired[str]',
        "id": 'str',
        "minutes": 'NotRequired[int]',
        "model": 'NotRequired[str]',
        "needs": 'NotRequired[List[str]]',
        "phase": 'NotRequired[Literal["works", "merges", "checks", "asks"]]',
        "question": 'NotRequired[str]',
        "request": 'str',
        "review": 'NotRequired[str]',
        "startedAt": 'NotRequired[str]',
        "state": 'Literal["pending", "in_progress", "completed", "skipped", "failed"]',
        "title": 'NotRequired[str]',
        "touches": 'NotRequired[List[str]]',
        "tries": 'NotRequired[List[PlanTry]]',
        "usage": 'NotRequired[Usage]',
        "why": 'NotRequired[str]',
    },
)

PlanReplan = TypedDict(
    "PlanReplan",
    {
        "approve": 'NotRequired[bool]',
        "message": 'NotRequired[str]',
    },
)

PlanRequest = TypedDict(
    "PlanRequest",
    {
        "files": 'NotRequired[List[InputFile]]',
        "schema": 'NotRequired[Any]',
        "sentence": 'str',
    },
)

PlanRetry = TypedDict(
    "PlanRetry",
    {
        "item": 'NotRequired[str]',
        "message": 'NotRequired[str]',
    },
)

PlanStateEvent = TypedDict(
    "PlanStateEvent",
    {
        "state": 'Literal["planning", "proposed", "queued", "running", "paused", "done"]',
        "why": 'NotRequired[str]',
    },
)

PlanTry = TypedDict(
    "PlanTry",
    {
        "base": 'str',
        "check": 'NotRequired[str]',
        "conflicts": 'NotRequired[List[str]]',
        "endedAt": 'NotRequired[str]',
        "head": 'NotRequired[str]',
        "merged": 'NotRequired[str]',
        "outcome": 'NotRequired[Literal["verified", "needs_human", "declined", "canceled", "failed", "lost", "answered"]]',
        "start": 'NotRequired[str]',
        "startedAt": 'str',
        "stopped": 'NotRequired[str]',
        "task": 'str',
        "why": 'NotRequired[str]',
    },
)

PolicyField = TypedDict(
    "PolicyField",
    {
        "from": 'str',
        "name": 'str',
        "value": 'str',
        "why": 'NotRequired[str]',
    },
)

PolicyRefusal = TypedDict(
    "PolicyRefusal",
    {
        "path": 'NotRequired[str]',
        "rule": 'str',
        "why": 'str',
    },
)

PolicySuggestion = TypedDict(
    "PolicySuggestion",
    {
        "name": 'str',
        "refused": 'NotRequired[str]',
        "value": 'str',
        "why": 'str',
    },
)

PortURL = TypedDict(
    "PortURL",
    {
        "expiresAt": 'NotRequired[str]',
        "private": 'NotRequired[bool]',
        "url": 'str',
    },
)

Preparation = TypedDict(
    "Preparation",
    {
        "commit": 'NotRequired[str]',
        "endedAt": 'NotRequired[str]',
        "error": 'NotRequired[Error]',
        "failures": 'NotRequired[int]',
        "nextAt": 'NotRequired[str]',
        "owner": 'NotRequired[str]',
        "preparedAt": 'NotRequired[str]',
        "requested": 'NotRequired[bool]',
        "running": 'NotRequired[bool]',
        "startedAt": 'NotRequired[str]',
        "task": 'NotRequired[str]',
    },
)

Problem = TypedDict(
    "Problem",
    {
        "call": 'NotRequired[str]',
        "detail": 'str',
        "hint": 'NotRequired[str]',
        "kind": 'Literal["invalid", "unauthenticated", "denied", "not_found", "exists", "conflict", "unsupported", "unisolated", "exhausted", "timeout", "canceled", "unavailable", "declined", "internal"]',
        "retryAfterMs": 'NotRequired[int]',
        "status": 'int',
        "title": 'str',
        "type": 'str',
    },
)

Proof = TypedDict(
    "Proof",
    {
        "how": 'str',
        "killed": 'int',
        "left": 'int',
    },
)

ProvisionRequest = TypedDict(
    "ProvisionRequest",
    {
        "envVars": 'NotRequired[Dict[str, str]]',
        "imageId": 'NotRequired[str]',
        "taskId": 'str',
        "ttlSeconds": 'NotRequired[int]',
    },
)

Provisioned = TypedDict(
    "Provisioned",
    {
        "createdAt": 'str',
        "endedAt": 'NotRequired[str]',
        "expiresAt": 'str',
        "imageId": 'str',
        "isolation": 'str',
        "reason": 'NotRequired[str]',
        "sandboxId": 'str',
        "sandboxUrl": 'str',
        "status": 'Literal["starting", "running", "paused", "ended", "lost"]',
        "taskId": 'str',
        "ttlSeconds": 'int',
    },
)

PullImage = TypedDict(
    "PullImage",
    {
        "isolation": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "reference": 'str',
        "refresh": 'NotRequired[bool]',
    },
)

PutDocument = TypedDict(
    "PutDocument",
    {
        "ifVersion": 'NotRequired[int]',
        "repository": 'NotRequired[str]',
        "text": 'str',
        "title": 'NotRequired[str]',
    },
)

Receipt = TypedDict(
    "Receipt",
    {
        "completed": 'List[str]',
        "processesLeft": 'int',
        "skipped": 'List[str]',
    },
)

RefusedChange = TypedDict(
    "RefusedChange",
    {
        "path": 'str',
        "why": 'str',
    },
)

Replay = TypedDict(
    "Replay",
    {
        "attempt": 'int',
        "task": 'str',
    },
)

ReplyTask = TypedDict(
    "ReplyTask",
    {
        "attempts": 'NotRequired[int]',
        "budget": 'NotRequired[Budget]',
        "locksMayChange": 'NotRequired[bool]',
        "reply": 'str',
        "rounds": 'NotRequired[int]',
        "testsMayChange": 'NotRequired[bool]',
    },
)

RepoResult = TypedDict(
    "RepoResult",
    {
        "agentSession": 'NotRequired[str]',
        "applied": 'NotRequired[bool]',
        "base": 'NotRequired[str]',
        "before": 'NotRequired[Gate]',
        "branch": 'NotRequired[str]',
        "candidates": 'NotRequired[List[Candidate]]',
        "cautions": 'NotRequired[List[Caution]]',
        "checkpoint": 'NotRequired[str]',
        "commit": 'NotRequired[str]',
        "copies": 'NotRequired[Dict[str, str]]',
        "delivery": 'NotRequired[Delivery]',
        "files": 'NotRequired[List[FileChange]]',
        "head": 'NotRequired[str]',
        "ignored": 'NotRequired[int]',
        "leftOut": 'NotRequired[List[LeftOut]]',
        "notInstalled": 'NotRequired[List[NotInstalled]]',
        "offLimits": 'NotRequired[int]',
        "partial": 'NotRequired[bool]',
        "refused": 'NotRequired[List[RefusedChange]]',
        "repositories": 'NotRequired[List[RepositoryResult]]',
        "rounds": 'NotRequired[List[Round]]',
        "stack": 'NotRequired[List[Delivery]]',
        "stopped": 'NotRequired[str]',
        "summary": 'NotRequired[str]',
        "title": 'NotRequired[str]',
        "todo": 'NotRequired[List[TodoItem]]',
        "verify": 'NotRequired[str]',
        "verifyFrom": 'NotRequired[str]',
        "wanted": 'NotRequired[List[WantedFile]]',
        "workspace": 'NotRequired[str]',
    },
)

RepoStepEvent = TypedDict(
    "RepoStepEvent",
    {
        "candidate": 'NotRequired[int]',
        "detail": 'NotRequired[str]',
        "done": 'NotRequired[bool]',
        "error": 'NotRequired[str]',
        "gate": 'NotRequired[Gate]',
        "line": 'NotRequired[str]',
        "ms": 'NotRequired[int]',
        "repository": 'NotRequired[str]',
        "round": 'NotRequired[int]',
        "step": 'str',
    },
)

RepoTask = TypedDict(
    "RepoTask",
    {
        "agent": 'NotRequired[str]',
        "also": 'NotRequired[List[TaskRepository]]',
        "author": 'Identity',
        "best": 'NotRequired[BestOf]',
        "budget": 'NotRequired[Budget]',
        "context": 'NotRequired[List[Document]]',
        "documents": 'NotRequired[List[str]]',
        "draft": 'NotRequired[bool]',
        "filePolicy": 'NotRequired[FilePolicy]',
        "fresh": 'NotRequired[bool]',
        "gateOnly": 'NotRequired[bool]',
        "isolationFrom": 'NotRequired[str]',
        "issue": 'NotRequired[str]',
        "item": 'NotRequired[ItemTask]',
        "locksMayChange": 'NotRequired[bool]',
        "mergeRequest": 'NotRequired[bool]',
        "mutant": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "noSetup": 'NotRequired[bool]',
        "overlap": 'NotRequired[str]',
        "passes": 'NotRequired[int]',
        "prepareOnly": 'NotRequired[bool]',
        "push": 'NotRequired[bool]',
        "ref": 'NotRequired[str]',
        "remote": 'NotRequired[str]',
        "rounds": 'NotRequired[int]',
        "strict": 'NotRequired[bool]',
        "target": 'NotRequired[str]',
        "testsMayChange": 'NotRequired[bool]',
        "until": 'NotRequired[str]',
        "url": 'str',
        "verify": 'NotRequired[str]',
        "workspace": 'NotRequired[str]',
    },
)

Repository = TypedDict(
    "Repository",
    {
        "account": 'NotRequired[str]',
        "app": 'NotRequired[GitHubApp]',
        "branch": 'NotRequired[str]',
        "bytes": 'NotRequired[int]',
        "commit": 'NotRequired[str]',
        "createdAt": 'str',
        "endedAt": 'NotRequired[str]',
        "error": 'NotRequired[Error]',
        "fetchMs": 'NotRequired[int]',
        "fetchedAt": 'NotRequired[str]',
        "forge": 'NotRequired[str]',
        "hook": 'NotRequired[RepositoryHook]',
        "id": 'str',
        "isolation": 'NotRequired[str]',
        "key": 'str',
        "lfsBytes": 'NotRequired[int]',
        "lfsFiles": 'NotRequired[int]',
        "name": 'str',
        "objects": 'NotRequired[int]',
        "owner": 'NotRequired[str]',
        "policy": 'NotRequired[RepositoryPolicy]',
        "preparation": 'NotRequired[Preparation]',
        "prepareEveryMs": 'NotRequired[int]',
        "secret": 'NotRequired[str]',
        "state": 'str',
        "subject": 'NotRequired[str]',
        "submodules": 'NotRequired[int]',
        "url": 'str',
        "verify": 'NotRequired[str]',
    },
)

RepositoryAccess = TypedDict(
    "RepositoryAccess",
    {
        "defaultBranch": 'NotRequired[str]',
        "forge": 'NotRequired[str]',
        "page": 'NotRequired[str]',
        "protected": 'NotRequired[List[str]]',
        "rights": 'List[RepositoryRight]',
    },
)

RepositoryDetected = TypedDict(
    "RepositoryDetected",
    {
        "commit": 'str',
        "gates": 'List[GateCandidate]',
        "noGate": 'NotRequired[str]',
        "policy": 'DeliveryPolicy',
        "setup": 'List[str]',
        "setupFrom": 'List[str]',
    },
)

RepositoryHook = TypedDict(
    "RepositoryHook",
    {
        "agent": 'NotRequired[str]',
        "command": 'NotRequired[str]',
        "forge": 'NotRequired[str]',
        "label": 'NotRequired[str]',
        "model": 'NotRequired[str]',
        "people": 'List[str]',
        "tasksPerDay": 'NotRequired[int]',
        "usdPerDay": 'NotRequired[float]',
        "usdPerTask": 'NotRequired[float]',
    },
)

RepositoryHookState = TypedDict(
    "RepositoryHookState",
    {
        "events": 'List[HookEvent]',
        "hook": 'NotRequired[RepositoryHook]',
        "secret": 'NotRequired[str]',
        "steps": 'NotRequired[List[str]]',
        "tasksToday": 'int',
        "url": 'str',
        "usdToday": 'float',
    },
)

RepositoryLine = TypedDict(
    "RepositoryLine",
    {
        "error": 'NotRequired[Problem]',
        "progress": 'NotRequired[str]',
        "repository": 'NotRequired[Repository]',
        "type": 'Literal["step", "output", "waiting", "done", "error"]',
    },
)

RepositoryPolicy = TypedDict(
    "RepositoryPolicy",
    {
        "draft": 'NotRequired[bool]',
        "exists": 'NotRequired[str]',
        "forbidden": 'NotRequired[List[str]]',
        "maxFiles": 'NotRequired[int]',
        "maxLines": 'NotRequired[int]',
        "prefix": 'NotRequired[str]',
        "protected": 'NotRequired[List[str]]',
        "target": 'NotRequired[str]',
    },
)

RepositoryPolicyState = TypedDict(
    "RepositoryPolicyState",
    {
        "deliveries": 'List[ExampleDelivery]',
        "fields": 'List[PolicyField]',
        "notChecked": 'NotRequired[str]',
        "policy": 'NotRequired[RepositoryPolicy]',
        "refused": 'NotRequired[List[PolicyRefusal]]',
        "repository": 'NotRequired[str]',
        "suggestions": 'List[PolicySuggestion]',
    },
)

RepositoryResult = TypedDict(
    "RepositoryResult",
    {
        "base": 'NotRequired[str]',
        "commit": 'NotRequired[str]',
        "delivery": 'NotRequired[Delivery]',
        "head": 'NotRequired[str]',
        "name": 'str',
        "verify": 'NotRequired[str]',
    },
)

RepositoryRight = TypedDict(
    "RepositoryRight",
    {
        "fix": 'NotRequired[str]',
        "ok": 'bool',
        "reason": 'NotRequired[str]',
        "right": 'str',
    },
)

RepositorySchedule = TypedDict(
    "RepositorySchedule",
    {
        "prepareEveryMs": 'int',
    },
)

RepositorySettings = TypedDict(
    "RepositorySettings",
    {
        "app": 'NotRequired[GitHubApp]',
        "isolation": 'NotRequired[str]',
        "secret": 'NotRequired[str]',
        "verify": 'NotRequired[str]',
    },
)

ResumedEvent = TypedDict(
    "ResumedEvent",
    {
        "cut": 'int',
        "daemon": 'int',
        "move": 'NotRequired[TaskMove]',
        "ms": 'int',
        "pausedMs": 'int',
        "steps": 'int',
    },
)

RetryEvent = TypedDict(
    "RetryEvent",
    {
        "attempt": 'int',
        "candidate": 'NotRequired[int]',
        "error": 'str',
        "nextAt": 'str',
        "of": 'int',
        "waitMs": 'int',
        "what": 'str',
    },
)

ReusedGate = TypedDict(
    "ReusedGate",
    {
        "at": 'str',
        "commit": 'str',
        "task": 'str',
    },
)

RoleCalls = TypedDict(
    "RoleCalls",
    {
        "calls": 'int',
        "errors": 'NotRequired[int]',
        "model": 'str',
        "ms": 'int',
        "role": 'str',
        "usage": 'NotRequired[Usage]',
    },
)

Round = TypedDict(
    "Round",
    {
        "acceptance": 'NotRequired[Gate]',
        "agent": 'NotRequired[str]',
        "disguised": 'NotRequired[Gate]',
        "gate": 'NotRequired[Gate]',
        "head": 'NotRequired[str]',
        "model": 'NotRequired[str]',
        "ms": 'int',
        "mutant": 'NotRequired[Gate]',
        "n": 'int',
        "noDisguise": 'NotRequired[bool]',
        "original": 'NotRequired[Gate]',
        "steps": 'int',
        "stop": 'str',
        "why": 'NotRequired[str]',
        "without": 'NotRequired[Gate]',
    },
)

RunCode = TypedDict(
    "RunCode",
    {
        "code": 'str',
        "context": 'NotRequired[str]',
        "env": 'NotRequired[Dict[str, str]]',
        "language": 'NotRequired[str]',
    },
)

RunEvent = Union["RunEventCreated", "RunEventStarted", "RunEventPlan", "RunEventCode", "RunEventEscalation", "RunEventAttempt", "RunEventPhase", "RunEventOutput", "RunEventResult", "RunEventDiagnosis", "RunEventModel", "RunEventModelRetry", "RunEventStep", "RunEventTier", "RunEventTool", "RunEventSay", "RunEventCandidate", "RunEventCompact", "RunEventTodo", "RunEventLeft", "RunEventResumed", "RunEventWaiting", "RunEventOverlap", "RunEventRetry", "RunEventLessons", "RunEventCancel", "RunEventVerdict"]

RunEventAttempt = TypedDict(
    "RunEventAttempt",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["attempt"]',
    },
)

RunEventCancel = TypedDict(
    "RunEventCancel",
    {
        "at": 'str',
        "data": 'NotRequired[Dict[str, Any]]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["cancel"]',
    },
)

RunEventCandidate = TypedDict(
    "RunEventCandidate",
    {
        "at": 'str',
        "data": 'NotRequired[Candidate]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["candidate"]',
    },
)

RunEventCode = TypedDict(
    "RunEventCode",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["code"]',
    },
)

RunEventCompact = TypedDict(
    "RunEventCompact",
    {
        "at": 'str',
        "data": 'NotRequired[CompactEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["compact"]',
    },
)

RunEventCreated = TypedDict(
    "RunEventCreated",
    {
        "at": 'str',
        "data": 'NotRequired[Task]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["created"]',
    },
)

RunEventDiagnosis = TypedDict(
    "RunEventDiagnosis",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["diagnosis"]',
    },
)

RunEventEscalation = TypedDict(
    "RunEventEscalation",
    {
        "at": 'str',
        "data": 'NotRequired[EscalationEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["escalation"]',
    },
)

RunEventLeft = TypedDict(
    "RunEventLeft",
    {
        "at": 'str',
        "data": 'NotRequired[LeftEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["left"]',
    },
)

RunEventLessons = TypedDict(
    "RunEventLessons",
    {
        "at": 'str',
        "data": 'NotRequired[LessonsEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["lessons"]',
    },
)

RunEventModel = TypedDict(
    "RunEventModel",
    {
        "at": 'str',
        "data": 'NotRequired[ModelEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["model"]',
    },
)

RunEventModelRetry = TypedDict(
    "RunEventModelRetry",
    {
        "at": 'str',
        "data": 'NotRequired[ModelRetryEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["model_retry"]',
    },
)

RunEventOutput = TypedDict(
    "RunEventOutput",
    {
        "at": 'str',
        "data": 'NotRequired[OutputEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["output"]',
    },
)

RunEventOverlap = TypedDict(
    "RunEventOverlap",
    {
        "at": 'str',
        "data": 'NotRequired[OverlapEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["overlap"]',
    },
)

RunEventPhase = TypedDict(
    "RunEventPhase",
    {
        "at": 'str',
        "data": 'NotRequired[PhaseEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["phase"]',
    },
)

RunEventPlan = TypedDict(
    "RunEventPlan",
    {
        "at": 'str',
        "data": 'NotRequired[ExecutionPlan]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["plan"]',
    },
)

RunEventResult = TypedDict(
    "RunEventResult",
    {
        "at": 'str',
        "data": 'NotRequired[AttemptEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["result"]',
    },
)

RunEventResumed = TypedDict(
    "RunEventResumed",
    {
        "at": 'str',
        "data": 'NotRequired[ResumedEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["resumed"]',
    },
)

RunEventRetry = TypedDict(
    "RunEventRetry",
    {
        "at": 'str',
        "data": 'NotRequired[RetryEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["retry"]',
    },
)

RunEventSay = TypedDict(
    "RunEventSay",
    {
        "at": 'str',
        "data": 'NotRequired[SayEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["say"]',
    },
)

RunEventStarted = TypedDict(
    "RunEventStarted",
    {
        "at": 'str',
        "data": 'NotRequired[Dict[str, Any]]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["started"]',
    },
)

RunEventStep = TypedDict(
    "RunEventStep",
    {
        "at": 'str',
        "data": 'NotRequired[RepoStepEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["step"]',
    },
)

RunEventTier = TypedDict(
    "RunEventTier",
    {
        "at": 'str',
        "data": 'NotRequired[TierEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["tier"]',
    },
)

RunEventTodo = TypedDict(
    "RunEventTodo",
    {
        "at": 'str',
        "data": 'NotRequired[TodoEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["todo"]',
    },
)

RunEventTool = TypedDict(
    "RunEventTool",
    {
        "at": 'str',
        "data": 'NotRequired[ToolEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["tool"]',
    },
)

RunEventVerdict = TypedDict(
    "RunEventVerdict",
    {
        "at": 'str',
        "data": 'NotRequired[Task]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["verdict"]',
    },
)

RunEventWaiting = TypedDict(
    "RunEventWaiting",
    {
        "at": 'str',
        "data": 'NotRequired[WaitingEvent]',
        "seq": 'int',
        "stream": 'Stream',
        "type": 'Literal["waiting"]',
    },
)

Sandbox = TypedDict(
    "Sandbox",
    {
        "account": 'NotRequired[str]',
        "autoResume": 'NotRequired[bool]',
        "bootId": 'NotRequired[str]',
        "build": 'NotRequired[str]',
        "createdAt": 'str',
        "defaults": 'NotRequired[CommandDefaults]',
        "egress": 'str',
        "egressPolicy": 'NotRequired[EgressPolicy]',
        "endedAt": 'NotRequired[str]',
        "envNames": 'NotRequired[List[str]]',
        "expiresAt": 'str',
        "expiresBootMs": 'NotRequired[int]',
        "held": 'NotRequired[bool]',
        "id": 'str',
        "idePort": 'NotRequired[int]',
        "identities": 'NotRequired[List[str]]',
        "isolation": 'str',
        "isolationWhy": 'NotRequired[str]',
        "key": 'NotRequired[str]',
        "labels": 'NotRequired[Dict[str, str]]',
        "limits": 'Limits',
        "lineage": 'NotRequired[str]',
        "maxEgress": 'NotRequired[EgressPolicy]',
        "maxTtlMs": 'NotRequired[int]',
        "memoryKills": 'NotRequired[int]',
        "moving": 'NotRequired[bool]',
        "node": 'NotRequired[str]',
        "onExpiry": 'NotRequired[str]',
        "onRestore": 'NotRequired[str]',
        "owner": 'NotRequired[str]',
        "parent": 'NotRequired[str]',
        "privateTraffic": 'NotRequired[bool]',
        "provision": 'NotRequired[ProvisionRequest]',
        "reason": 'NotRequired[str]',
        "secrets": 'NotRequired[List[SecretGrant]]',
        "snapshot": 'NotRequired[str]',
        "state": 'Literal["starting", "running", "paused", "ended", "lost"]',
        "task": 'NotRequired[str]',
        "template": 'str',
        "unenforced": 'NotRequired[List[Unenforced]]',
        "waiting": 'NotRequired[WaitingEvent]',
        "workspace": 'NotRequired[str]',
    },
)

SandboxMove = TypedDict(
    "SandboxMove",
    {
        "awayMs": 'NotRequired[int]',
        "reason": 'NotRequired[str]',
        "resumed": 'NotRequired[bool]',
        "sandbox": 'str',
        "state": 'str',
        "to": 'NotRequired[str]',
    },
)

SandboxStateEvent = TypedDict(
    "SandboxStateEvent",
    {
        "proof": 'NotRequired[Proof]',
        "reason": 'NotRequired[str]',
        "state": 'Literal["starting", "running", "paused", "ended", "lost"]',
    },
)

SayEvent = TypedDict(
    "SayEvent",
    {
        "agent": 'NotRequired[str]',
        "candidate": 'NotRequired[int]',
        "cut": 'NotRequired[bool]',
        "round": 'int',
        "step": 'int',
        "text": 'str',
    },
)

SealedWorkspace = TypedDict(
    "SealedWorkspace",
    {
        "layer": 'NotRequired[str]',
        "usage": 'WorkspaceUsage',
        "workspace": 'Workspace',
    },
)

Secret = TypedDict(
    "Secret",
    {
        "account": 'NotRequired[str]',
        "bindings": 'List[SecretBinding]',
        "budgets": 'NotRequired[List[SecretBudget]]',
        "command": 'NotRequired[List[str]]',
        "createdAt": 'str',
        "forHeaders": 'NotRequired[bool]',
        "from": 'NotRequired[str]',
        "id": 'NotRequired[str]',
        "lifetimeMs": 'NotRequired[int]',
        "metadata": 'NotRequired[Dict[str, str]]',
        "name": 'str',
        "signer": 'NotRequired[str]',
        "source": 'str',
        "spent": 'NotRequired[SecretSpent]',
        "updatedAt": 'str',
        "usedAt": 'NotRequired[str]',
        "uses": 'NotRequired[int]',
        "version": 'NotRequired[int]',
    },
)

SecretAmounts = TypedDict(
    "SecretAmounts",
    {
        "microUsd": 'int',
        "requests": 'int',
        "tokens": 'int',
    },
)

SecretBinding = TypedDict(
    "SecretBinding",
    {
        "git": 'NotRequired[SecretGit]',
        "host": 'str',
        "in": 'SecretPlace',
        "methods": 'NotRequired[List[str]]',
        "model": 'NotRequired[str]',
        "paths": 'NotRequired[List[str]]',
        "port": 'NotRequired[int]',
        "scheme": 'NotRequired[str]',
    },
)

SecretBudget = TypedDict(
    "SecretBudget",
    {
        "amount": 'float',
        "per": 'NotRequired[str]',
        "unit": 'str',
    },
)

SecretGit = TypedDict(
    "SecretGit",
    {
        "delete": 'NotRequired[bool]',
        "fetch": 'NotRequired[bool]',
        "force": 'NotRequired[bool]',
        "push": 'NotRequired[List[str]]',
        "repository": 'str',
    },
)

SecretGrant = TypedDict(
    "SecretGrant",
    {
        "endsAt": 'NotRequired[str]',
        "env": 'NotRequired[str]',
        "lifetimeMs": 'NotRequired[int]',
        "name": 'str',
        "revoked": 'NotRequired[bool]',
    },
)

SecretPlace = TypedDict(
    "SecretPlace",
    {
        "kind": 'str',
        "name": 'NotRequired[str]',
    },
)

SecretSet = TypedDict(
    "SecretSet",
    {
        "bindings": 'List[SecretBinding]',
        "budgets": 'NotRequired[List[SecretBudget]]',
        "command": 'NotRequired[List[str]]',
        "forHeaders": 'NotRequired[bool]',
        "from": 'NotRequired[str]',
        "lifetimeMs": 'NotRequired[int]',
        "metadata": 'NotRequired[Dict[str, str]]',
        "resetBudget": 'NotRequired[bool]',
        "signer": 'NotRequired[str]',
        "source": 'NotRequired[str]',
        "value": 'NotRequired[str]',
        "version": 'NotRequired[int]',
    },
)

SecretSpent = TypedDict(
    "SecretSpent",
    {
        "tasks": 'List[SecretTaskSpent]',
        "today": 'SecretAmounts',
        "total": 'SecretAmounts',
    },
)

SecretTaskSpent = TypedDict(
    "SecretTaskSpent",
    {
        "at": 'str',
        "microUsd": 'int',
        "requests": 'int',
        "task": 'str',
        "tokens": 'int',
    },
)

SecretUsage = TypedDict(
    "SecretUsage",
    {
        "estimated": 'NotRequired[bool]',
        "inputTokens": 'int',
        "microUsd": 'int',
        "model": 'NotRequired[str]',
        "outputTokens": 'int',
        "pricedAs": 'NotRequired[str]',
    },
)

SecretUse = TypedDict(
    "SecretUse",
    {
        "account": 'NotRequired[str]',
        "at": 'str',
        "binding": 'NotRequired[int]',
        "broken": 'NotRequired[bool]',
        "budget": 'NotRequired[str]',
        "commands": 'NotRequired[List[str]]',
        "for": 'NotRequired[str]',
        "header": 'NotRequired[str]',
        "host": 'str',
        "method": 'str',
        "missed": 'NotRequired[int]',
        "path": 'str',
        "port": 'int',
        "purpose": 'NotRequired[str]',
        "received": 'NotRequired[int]',
        "refused": 'NotRequired[str]',
        "sandbox": 'str',
        "scheme": 'str',
        "secret": 'str',
        "sent": 'NotRequired[int]',
        "seq": 'NotRequired[int]',
        "status": 'NotRequired[int]',
        "task": 'NotRequired[str]',
        "usage": 'NotRequired[SecretUsage]',
    },
)

Session = TypedDict(
    "Session",
    {
        "account": 'NotRequired[str]',
        "at": 'int',
        "base": 'NotRequired[str]',
        "commit": 'NotRequired[str]',
        "createdAt": 'str',
        "delivery": 'NotRequired[Delivery]',
        "endedAt": 'NotRequired[str]',
        "expiresAt": 'str',
        "forkedFrom": 'NotRequired[str]',
        "head": 'NotRequired[str]',
        "id": 'str',
        "key": 'str',
        "owner": 'NotRequired[str]',
        "reason": 'NotRequired[str]',
        "sandbox": 'NotRequired[str]',
        "settings": 'SessionSettings',
        "state": 'Literal["stored", "running", "warm", "paused", "closed"]',
        "turnCount": 'int',
        "turns": 'NotRequired[List[SessionTurn]]',
        "usedAt": 'str',
        "workspace": 'NotRequired[str]',
    },
)

SessionBackEvent = TypedDict(
    "SessionBackEvent",
    {
        "superseded": 'int',
        "turn": 'int',
    },
)

SessionCancel = TypedDict(
    "SessionCancel",
    {
        "queued": 'NotRequired[bool]',
        "turn": 'NotRequired[int]',
    },
)

SessionCreate = TypedDict(
    "SessionCreate",
    {
        "agent": 'NotRequired[str]',
        "author": 'NotRequired[Identity]',
        "budget": 'NotRequired[Budget]',
        "draft": 'NotRequired[bool]',
        "gateTimeoutMs": 'NotRequired[int]',
        "key": 'str',
        "largeModel": 'NotRequired[str]',
        "mergeRequest": 'NotRequired[bool]',
        "model": 'NotRequired[str]',
        "noSetup": 'NotRequired[bool]',
        "pausedMs": 'NotRequired[int]',
        "push": 'NotRequired[bool]',
        "ref": 'NotRequired[str]',
        "remote": 'NotRequired[str]',
        "repository": 'NotRequired[str]',
        "rounds": 'NotRequired[int]',
        "sandbox": 'NotRequired[CreateSandbox]',
        "target": 'NotRequired[str]',
        "ttlMs": 'NotRequired[int]',
        "verify": 'NotRequired[str]',
        "warmMs": 'NotRequired[int]',
    },
)

SessionFork = TypedDict(
    "SessionFork",
    {
        "key": 'str',
        "turn": 'NotRequired[int]',
    },
)

SessionForkedEvent = TypedDict(
    "SessionForkedEvent",
    {
        "key": 'str',
        "session": 'str',
        "turn": 'int',
    },
)

SessionMessage = TypedDict(
    "SessionMessage",
    {
        "create": 'NotRequired[SessionSettings]',
        "mode": 'NotRequired[Literal["queue", "interrupt"]]',
        "text": 'str',
    },
)

SessionRestore = TypedDict(
    "SessionRestore",
    {
        "turn": 'int',
    },
)

SessionRestoredEvent = TypedDict(
    "SessionRestoredEvent",
    {
        "how": 'str',
        "messages": 'int',
        "ms": 'int',
        "sandbox": 'str',
        "turn": 'int',
    },
)

SessionSettings = TypedDict(
    "SessionSettings",
    {
        "agent": 'NotRequired[str]',
        "author": 'NotRequired[Identity]',
        "budget": 'NotRequired[Budget]',
        "draft": 'NotRequired[bool]',
        "gateTimeoutMs": 'NotRequired[int]',
        "largeModel": 'NotRequired[str]',
        "mergeRequest": 'NotRequired[bool]',
        "model": 'NotRequired[str]',
        "noSetup": 'NotRequired[bool]',
        "pausedMs": 'NotRequired[int]',
        "push": 'NotRequired[bool]',
        "ref": 'NotRequired[str]',
        "remote": 'NotRequired[str]',
        "repository": 'NotRequired[str]',
        "rounds": 'NotRequired[int]',
        "sandbox": 'NotRequired[CreateSandbox]',
        "target": 'NotRequired[str]',
        "ttlMs": 'NotRequired[int]',
        "verify": 'NotRequired[str]',
        "warmMs": 'NotRequired[int]',
    },
)

SessionStateEvent = TypedDict(
    "SessionStateEvent",
    {
        "reason": 'NotRequired[str]',
        "state": 'Literal["stored", "running", "warm", "paused", "closed"]',
    },
)

SessionTurn = TypedDict(
    "SessionTurn",
    {
        "answer": 'NotRequired[str]',
        "changed": 'NotRequired[bool]',
        "checkpoint": 'NotRequired[bool]',
        "createdAt": 'str',
        "delivery": 'NotRequired[Delivery]',
        "endedAt": 'NotRequired[str]',
        "error": 'NotRequired[Error]',
        "head": 'NotRequired[str]',
        "mode": 'NotRequired[Literal["queue", "interrupt"]]',
        "n": 'int',
        "note": 'NotRequired[str]',
        "outcome": 'NotRequired[Literal["verified", "needs_human", "declined", "canceled", "failed", "lost", "answered"]]',
        "receipt": 'NotRequired[Receipt]',
        "restored": 'NotRequired[str]',
        "restoredMs": 'NotRequired[int]',
        "startedAt": 'NotRequired[str]',
        "state": 'Literal["queued", "running", "done", "removed"]',
        "superseded": 'NotRequired[bool]',
        "task": 'NotRequired[str]',
        "text": 'str',
        "usage": 'NotRequired[Usage]',
    },
)

SetRepositoryHook = TypedDict(
    "SetRepositoryHook",
    {
        "hook": 'RepositoryHook',
        "newSecret": 'NotRequired[bool]',
    },
)

SetRepositoryPolicy = TypedDict(
    "SetRepositoryPolicy",
    {
        "dryRun": 'NotRequired[bool]',
        "policy": 'RepositoryPolicy',
    },
)

SharedMemory = TypedDict(
    "SharedMemory",
    {
        "bytes": 'int',
        "file": 'NotRequired[bool]',
        "holder": 'NotRequired[str]',
        "name": 'str',
        "totalBytes": 'int',
    },
)

SignalExec = TypedDict(
    "SignalExec",
    {
        "signal": 'int',
    },
)

Snapshot = TypedDict(
    "Snapshot",
    {
        "account": 'NotRequired[str]',
        "archived": 'NotRequired[str]',
        "buildKey": 'NotRequired[str]',
        "bytes": 'int',
        "createdAt": 'str',
        "defaults": 'NotRequired[CommandDefaults]',
        "egressPolicy": 'NotRequired[EgressPolicy]',
        "endedAt": 'NotRequired[str]',
        "id": 'str',
        "idePort": 'NotRequired[int]',
        "identities": 'NotRequired[List[str]]',
        "image": 'ImageMark',
        "key": 'NotRequired[str]',
        "kind": 'Literal["memory", "files"]',
        "layers": 'List[str]',
        "limits": 'Limits',
        "lineage": 'NotRequired[str]',
        "listeners": 'NotRequired[List[Listener]]',
        "listenersError": 'NotRequired[str]',
        "name": 'NotRequired[str]',
        "onRestore": 'NotRequired[str]',
        "otherNames": 'NotRequired[List[str]]',
        "owner": 'NotRequired[str]',
        "parent": 'NotRequired[str]',
        "paused": 'NotRequired[bool]',
        "pausedMs": 'int',
        "privateTraffic": 'NotRequired[bool]',
        "reason": 'NotRequired[str]',
        "sandbox": 'str',
        "sharedBytes": 'NotRequired[int]',
        "state": 'Literal["saving", "ready", "broken", "removed"]',
        "template": 'str',
        "why": 'NotRequired[str]',
    },
)

Stats = TypedDict(
    "Stats",
    {
        "at": 'str',
        "cpuTimeMs": 'int',
        "diskSharedBytes": 'int',
        "diskTotalBytes": 'int',
        "diskUsedBytes": 'int',
        "memoryBytes": 'int',
        "memoryKills": 'int',
        "memoryOwnBytes": 'int',
        "memoryPeakBytes": 'int',
        "memorySharedBytes": 'int',
        "processes": 'int',
        "sharedMemory": 'NotRequired[List[SharedMemory]]',
    },
)

StoredDocument = TypedDict(
    "StoredDocument",
    {
        "bytes": 'int',
        "key": 'NotRequired[str]',
        "name": 'str',
        "repository": 'NotRequired[str]',
        "text": 'NotRequired[str]',
        "title": 'str',
        "version": 'int',
        "writtenAt": 'str',
    },
)

Stream = TypedDict(
    "Stream",
    {
        "id": 'str',
        "kind": 'str',
    },
)

SyncRepository = TypedDict(
    "SyncRepository",
    {
        "prepare": 'NotRequired[bool]',
    },
)

TTL = TypedDict(
    "TTL",
    {
        "ttlMs": 'int',
    },
)

TagSnapshot = TypedDict(
    "TagSnapshot",
    {
        "tags": 'List[str]',
    },
)

TakeBrowser = TypedDict(
    "TakeBrowser",
    {
        "token": 'NotRequired[str]',
    },
)

Task = TypedDict(
    "Task",
    {
        "account": 'NotRequired[str]',
        "attempts": 'NotRequired[List[Attempt]]',
        "calls": 'NotRequired[List[RoleCalls]]',
        "continues": 'NotRequired[str]',
        "create": 'CreateTask',
        "createdAt": 'str',
        "diagnosis": 'NotRequired[str]',
        "endedAt": 'NotRequired[str]',
        "envNames": 'NotRequired[List[str]]',
        "error": 'NotRequired[Error]',
        "id": 'str',
        "key": 'NotRequired[str]',
        "lessons": 'NotRequired[List[str]]',
        "lessonsBy": 'NotRequired[Dict[str, int]]',
        "model": 'str',
        "models": 'NotRequired[Models]',
        "moves": 'NotRequired[List[TaskMove]]',
        "node": 'NotRequired[str]',
        "outcome": 'NotRequired[Literal["verified", "needs_human", "declined", "canceled", "failed", "lost", "answered"]]',
        "owner": 'NotRequired[str]',
        "plan": 'NotRequired[ExecutionPlan]',
        "question": 'NotRequired[str]',
        "receipt": 'NotRequired[Receipt]',
        "reply": 'NotRequired[str]',
        "repo": 'NotRequired[RepoResult]',
        "session": 'NotRequired[str]',
        "startedAt": 'NotRequired[str]',
        "state": 'Literal["pending", "running", "done"]',
        "usage": 'NotRequired[Usage]',
        "value": 'NotRequired[Any]',
    },
)

TaskMove = TypedDict(
    "TaskMove",
    {
        "at": 'str',
        "from": 'str',
        "to": 'str',
        "why": 'Literal["drained", "ended"]',
    },
)

TaskRepository = TypedDict(
    "TaskRepository",
    {
        "name": 'str',
        "ref": 'NotRequired[str]',
        "remote": 'NotRequired[str]',
        "url": 'str',
    },
)

TaskStats = TypedDict(
    "TaskStats",
    {
        "attemptsPerSuccess": 'float',
        "errors": 'Dict[str, int]',
        "failures": 'List[FailureCount]',
        "lessons": 'NotRequired[LessonStats]',
        "missing": 'List[MissingCount]',
        "models": 'List[ModelUse]',
        "outcomes": 'Dict[str, int]',
        "phases": 'List[PhaseTime]',
        "programs": 'int',
        "replays": 'int',
        "repositories": 'NotRequired[int]',
        "requests": 'int',
        "roundsPerSuccess": 'NotRequired[float]',
        "running": 'int',
        "since": 'NotRequired[str]',
        "stops": 'NotRequired[Dict[str, int]]',
        "successRate": 'float',
        "tasks": 'int',
    },
)

Template = TypedDict(
    "Template",
    {
        "image": 'NotRequired[Image]',
        "name": 'str',
        "snapshot": 'NotRequired[Snapshot]',
    },
)

TemplateLine = TypedDict(
    "TemplateLine",
    {
        "error": 'NotRequired[Problem]',
        "snapshot": 'NotRequired[Snapshot]',
        "step": 'NotRequired[str]',
        "type": 'Literal["step", "output", "waiting", "done", "error"]',
    },
)

TemplateReport = TypedDict(
    "TemplateReport",
    {
        "asked": 'NotRequired[List[str]]',
        "digest": 'str',
        "error": 'NotRequired[str]',
        "fingerprint": 'str',
        "hidden": 'int',
        "libraries": 'NotRequired[List[Library]]',
        "name": 'str',
        "notAsked": 'NotRequired[str]',
        "toolchains": 'NotRequired[List[Toolchain]]',
        "tools": 'List[Tool]',
    },
)

TestReport = TypedDict(
    "TestReport",
    {
        "before": 'NotRequired[int]',
        "failed": 'NotRequired[int]',
        "failedTests": 'NotRequired[List[str]]',
        "fixed": 'NotRequired[int]',
        "missing": 'NotRequired[List[str]]',
        "missingCount": 'NotRequired[int]',
        "new": 'NotRequired[int]',
        "old": 'NotRequired[List[str]]',
        "oldCount": 'NotRequired[int]',
        "oldOnly": 'NotRequired[bool]',
        "passed": 'int',
        "regressions": 'NotRequired[int]',
        "runner": 'str',
        "skipped": 'NotRequired[int]',
        "unstable": 'NotRequired[List[UnstableTest]]',
        "why": 'NotRequired[str]',
    },
)

TierEvent = TypedDict(
    "TierEvent",
    {
        "commit": 'str',
        "hit": 'bool',
        "key": 'str',
        "ms": 'NotRequired[int]',
        "part": 'str',
        "tier": 'str',
    },
)

TodoEvent = TypedDict(
    "TodoEvent",
    {
        "candidate": 'NotRequired[int]',
        "items": 'List[TodoItem]',
        "round": 'int',
        "step": 'int',
    },
)

TodoItem = TypedDict(
    "TodoItem",
    {
        "state": 'str',
        "text": 'str',
    },
)

Tool = TypedDict(
    "Tool",
    {
        "install": 'NotRequired[str]',
        "name": 'str',
        "path": 'NotRequired[str]',
        "present": 'bool',
        "version": 'NotRequired[str]',
    },
)

ToolEvent = TypedDict(
    "ToolEvent",
    {
        "agent": 'NotRequired[str]',
        "candidate": 'NotRequired[int]',
        "failed": 'NotRequired[bool]',
        "input": 'NotRequired[str]',
        "ms": 'int',
        "output": 'NotRequired[str]',
        "round": 'int',
        "step": 'int',
        "tool": 'str',
    },
)

Toolchain = TypedDict(
    "Toolchain",
    {
        "name": 'str',
        "path": 'str',
        "setting": 'str',
        "shown": 'bool',
        "version": 'str',
    },
)

Unenforced = TypedDict(
    "Unenforced",
    {
        "limit": 'str',
        "reason": 'str',
    },
)

UnstableTest = TypedDict(
    "UnstableTest",
    {
        "before": 'NotRequired[bool]',
        "name": 'str',
        "passed": 'int',
        "runs": 'int',
    },
)

UpdateWorkspace = TypedDict(
    "UpdateWorkspace",
    {
        "quotaBytes": 'int',
    },
)

UpdatedEvent = TypedDict(
    "UpdatedEvent",
    {
        "expiresAt": 'str',
    },
)

Usage = TypedDict(
    "Usage",
    {
        "cachedTokens": 'NotRequired[int]',
        "costUsd": 'NotRequired[float]',
        "inputTokens": 'NotRequired[int]',
        "outputTokens": 'NotRequired[int]',
        "requests": 'NotRequired[int]',
        "unpriced": 'NotRequired[int]',
    },
)

UserRecord = TypedDict(
    "UserRecord",
    {
        "gid": 'int',
        "groups": 'NotRequired[List[int]]',
        "home": 'str',
        "name": 'str',
        "uid": 'int',
    },
)

Variant = TypedDict(
    "Variant",
    {
        "agent": 'NotRequired[str]',
        "model": 'NotRequired[str]',
        "strategy": 'NotRequired[str]',
        "temperature": 'NotRequired[float]',
    },
)

Version = TypedDict(
    "Version",
    {
        "arch": 'str',
        "build": 'str',
        "go": 'str',
        "guestEmbedded": 'bool',
        "gvisor": 'NotRequired[str]',
        "os": 'str',
        "version": 'str',
    },
)

WaitLine = TypedDict(
    "WaitLine",
    {
        "answer": 'NotRequired[Any]',
        "error": 'NotRequired[Problem]',
        "type": 'Literal["step", "output", "waiting", "done", "error"]',
        "waiting": 'NotRequired[WaitingEvent]',
    },
)

WaitRequest = TypedDict(
    "WaitRequest",
    {
        "timeout": 'NotRequired[int]',
    },
)

WaitingEvent = TypedDict(
    "WaitingEvent",
    {
        "cause": 'str',
        "of": 'int',
        "position": 'int',
        "waitedMs": 'int',
        "why": 'str',
    },
)

WantedFile = TypedDict(
    "WantedFile",
    {
        "path": 'str',
        "why": 'NotRequired[str]',
    },
)

Watched = TypedDict(
    "Watched",
    {
        "any": 'NotRequired[bool]',
        "changed": 'NotRequired[List[Stream]]',
        "event": 'NotRequired[Event]',
    },
)

WorkMove = TypedDict(
    "WorkMove",
    {
        "key": 'NotRequired[str]',
        "plan": 'NotRequired[str]',
        "reason": 'NotRequired[str]',
        "session": 'NotRequired[str]',
        "state": 'str',
        "task": 'NotRequired[str]',
        "to": 'NotRequired[str]',
    },
)

Workspace = TypedDict(
    "Workspace",
    {
        "account": 'NotRequired[str]',
        "archived": 'NotRequired[WorkspaceArchive]',
        "createdAt": 'str',
        "endedAt": 'NotRequired[str]',
        "id": 'str',
        "keep": 'NotRequired[bool]',
        "layers": 'List[str]',
        "name": 'NotRequired[str]',
        "owner": 'NotRequired[str]',
        "parent": 'NotRequired[str]',
        "quotaBytes": 'NotRequired[int]',
        "reason": 'NotRequired[str]',
        "sandbox": 'NotRequired[str]',
        "session": 'NotRequired[str]',
        "state": 'Literal["idle", "active", "removed"]',
        "task": 'NotRequired[str]',
        "usage": 'NotRequired[WorkspaceUsage]',
        "version": 'NotRequired[WorkspaceVersion]',
    },
)

WorkspaceArchive = TypedDict(
    "WorkspaceArchive",
    {
        "bytes": 'int',
        "layers": 'List[str]',
        "of": 'str',
        "ref": 'str',
        "step": 'str',
        "storedAt": 'str',
        "task": 'str',
    },
)

WorkspaceChange = TypedDict(
    "WorkspaceChange",
    {
        "kind": 'Literal["added", "modified", "removed"]',
        "mode": 'NotRequired[str]',
        "noText": 'NotRequired[str]',
        "oldSize": 'int',
        "path": 'str',
        "size": 'int',
        "text": 'NotRequired[str]',
    },
)

WorkspaceDiff = TypedDict(
    "WorkspaceDiff",
    {
        "added": 'int',
        "bytes": 'int',
        "changes": 'List[WorkspaceChange]',
        "complete": 'bool',
        "modified": 'int',
        "refused": 'NotRequired[List[RefusedChange]]',
        "removed": 'int',
        "workspace": 'str',
    },
)

WorkspaceUsage = TypedDict(
    "WorkspaceUsage",
    {
        "bytes": 'int',
        "files": 'int',
        "incomplete": 'NotRequired[str]',
        "quota": 'NotRequired[str]',
    },
)

WorkspaceVersion = TypedDict(
    "WorkspaceVersion",
    {
        "changed": 'NotRequired[bool]',
        "conflict": 'NotRequired[str]',
        "host": 'NotRequired[str]',
        "number": 'int',
        "storedAt": 'NotRequired[str]',
        "waiting": 'NotRequired[str]',
    },
)

Workstream = TypedDict(
    "Workstream",
    {
        "id": 'str',
        "kind": 'str',
        "repository": 'str',
        "since": 'str',
        "title": 'str',
        "touches": 'List[str]',
        "waits": 'NotRequired[bool]',
        "waitsFor": 'NotRequired[List[str]]',
    },
)

WriteInfo = TypedDict(
    "WriteInfo",
    {
        "metadata": 'NotRequired[Dict[str, str]]',
        "name": 'str',
        "path": 'str',
        "type": 'str',
    },
)
