package http

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/plan"
	"hortus.dev/api/secrets"
	"hortus.dev/api/session"
)

// schemas makes JSON schemas of Go types as encoding/json writes them. Structs with a
// name are defined once and referred to.
type schemas struct {
	defined node
	named   map[string]reflect.Type
}

func newSchemas() *schemas { return &schemas{defined: node{}, named: map[string]reflect.Type{}} }

// enums are the values of types that have a closed set of them.
var enums = map[reflect.Type][]string{
	reflect.TypeFor[api.SandboxState]():   names(api.SandboxStarting, api.SandboxRunning, api.SandboxPaused, api.SandboxEnded, api.SandboxLost),
	reflect.TypeFor[api.ExecState]():      names(api.ExecRunning, api.ExecExited, api.ExecUnknown),
	reflect.TypeFor[api.TaskState]():      names(api.TaskPending, api.TaskRunning, api.TaskDone),
	reflect.TypeFor[api.SnapshotState]():  names(api.SnapshotSaving, api.SnapshotReady, api.SnapshotBroken, api.SnapshotRemoved),
	reflect.TypeFor[api.WorkspaceState](): names(api.WorkspaceIdle, api.WorkspaceActive, api.WorkspaceRemoved),
	reflect.TypeFor[api.MoveCause]():      names(api.MoveDrained, api.MoveEnded),
	reflect.TypeFor[api.ChangeKind]():     names(api.ChangeAdded, api.ChangeModified, api.ChangeRemoved),
	reflect.TypeFor[api.SnapshotKind]():   names(api.SnapshotMemory, api.SnapshotFiles),
	reflect.TypeFor[api.Outcome](): names(api.OutcomeVerified, api.OutcomeNeedsHuman, api.OutcomeDeclined, api.OutcomeCanceled,
		api.OutcomeFailed, api.OutcomeLost, api.OutcomeAnswered),
	reflect.TypeFor[session.State]():     names(session.Stored, session.Running, session.Warm, session.Paused, session.Closed),
	reflect.TypeFor[session.TurnState](): names(session.TurnQueued, session.TurnRunning, session.TurnDone, session.TurnRemoved),
	reflect.TypeFor[session.Mode]():      names(session.Queue, session.Interrupt),
	reflect.TypeFor[plan.State]():        names(plan.Planning, plan.Proposed, plan.Queued, plan.Running, plan.Paused, plan.Done),
	reflect.TypeFor[plan.ItemState]():    names(plan.Pending, plan.InProgress, plan.Completed, plan.Skipped, plan.Failed),
	reflect.TypeFor[plan.Phase]():        names(plan.Works, plan.Merges, plan.Checks, plan.Asks),
	reflect.TypeFor[api.EgressAction]():  names(api.EgressAllow, api.EgressDeny),
	reflect.TypeFor[api.EgressClass]():   names(api.EgressWeb, api.EgressPassthrough, api.EgressTCP),
	reflect.TypeFor[api.EgressResult]():  names(api.EgressAllowed, api.EgressDenied, api.EgressFailed, api.EgressWaiting, api.EgressDropped, api.EgressAlarm),
	reflect.TypeFor[api.LineType]():      names(api.LineStep, api.LineOutput, api.LineWaiting, api.LineDone, api.LineError),
	reflect.TypeFor[api.Preset]():        names(api.Presets()...),
	reflect.TypeFor[api.BrowserAction](): names(api.BrowserActions()...),
	reflect.TypeFor[api.Kind]():          names(api.Kinds[:]...),
}

func names[S ~string](all ...S) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = string(s)
	}
	return out
}

// of is the schema of a value's type.
func (s *schemas) of(v any) node { return s.ofType(reflect.TypeOf(v)) }

func (s *schemas) ofType(t reflect.Type) node {
	switch t {
	case reflect.TypeFor[time.Time]():
		return node{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return node{} // any value
	case reflect.TypeFor[api.Event](), reflect.TypeFor[runEvent]():
		return s.union(t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.ofType(t.Elem())
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.String:
		out := node{"type": "string"}
		if values := enums[t]; values != nil {
			out["enum"] = values
		}
		return out
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return node{"type": "integer"}
	case reflect.Int64, reflect.Uint64:
		return node{"type": "integer", "format": "int64"}
	case reflect.Float32, reflect.Float64:
		return node{"type": "number"}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return node{"type": "string", "contentEncoding": "base64"}
		}
		return node{"type": "array", "items": s.ofType(t.Elem())}
	case reflect.Map:
		return node{"type": "object", "additionalProperties": s.ofType(t.Elem())}
	case reflect.Struct:
		return s.ofStruct(t)
	}
	// A type that JSON cannot hold in a route's table is a programmer's mistake.
	panic("no schema of " + t.String())
}

// ofStruct defines a struct and refers to it.
func (s *schemas) ofStruct(t reflect.Type) node {
	if t.Name() == "" {
		return s.object(t)
	}
	name := schemaName(t)
	if have := s.named[name]; have != nil && have != t {
		panic("two types are called " + name + ": " + have.String() + " and " + t.String())
	}
	if s.named[name] == nil {
		s.named[name] = t // before its fields, which may be of its type
		s.defined[name] = s.object(t)
	}
	return node{"$ref": "#/components/schemas/" + name}
}

// runEvent is an event as the stream of a run has it, for the document.
type runEvent api.Event

// eventData has the type of the data of each event.
var eventData = []struct {
	event api.EventType
	data  any
}{
	{api.EventTaskCreated, api.Task{}}, {api.EventTaskStarted, struct{}{}}, {api.EventPlan, api.ExecutionPlan{}}, {api.EventCode, api.AttemptEvent{}},
	{api.EventEscalation, api.EscalationEvent{}}, {api.EventAttempt, api.AttemptEvent{}}, {api.EventPhase, api.PhaseEvent{}},
	{api.EventOutput, api.OutputEvent{}}, {api.EventResult, api.AttemptEvent{}}, {api.EventDiagnosis, api.AttemptEvent{}},
	{api.EventModel, api.ModelEvent{}}, {api.EventModelRetry, api.ModelRetryEvent{}}, {api.EventRepoStep, api.RepoStepEvent{}},
	{api.EventTier, api.TierEvent{}}, {api.EventTool, api.ToolEvent{}}, {api.EventSay, api.SayEvent{}}, {api.EventCandidate, api.Candidate{}},
	{api.EventCompact, api.CompactEvent{}}, {api.EventTodo, api.TodoEvent{}}, {api.EventTaskLeft, api.LeftEvent{}}, {api.EventTaskResumed, api.ResumedEvent{}}, {api.EventTaskWaiting, api.WaitingEvent{}}, {api.EventOverlap, api.OverlapEvent{}}, {api.EventRetry, api.RetryEvent{}},
	{api.EventLessons, api.LessonsEvent{}}, {api.EventTaskCancel, struct{}{}}, {api.EventTaskFinished, api.Task{}},
	{api.EventSandboxState, api.SandboxStateEvent{}}, {api.EventUpdated, api.UpdatedEvent{}}, {api.EventWaiting, api.WaitingEvent{}}, {api.EventSnapshot, api.Snapshot{}},
	{api.EventForked, api.ForkEvent{}}, {api.EventAdopted, api.AdoptedEvent{}}, {api.EventEgress, api.EgressDecision{}},
	{api.EventEgressPolicy, api.EgressPolicyEvent{}}, {api.EventExecStarted, api.Exec{}}, {api.EventExecEnded, api.Exec{}},
	{session.EventCreated, session.Session{}}, {session.EventMessage, session.Turn{}}, {session.EventRemoved, session.Turn{}},
	{session.EventTurn, session.Turn{}}, {session.EventRestored, session.RestoredEvent{}}, {session.EventAnswer, session.Turn{}},
	{session.EventState, session.StateEvent{}}, {session.EventBack, session.BackEvent{}}, {session.EventForked, session.ForkedEvent{}},
	{session.EventClosed, session.Session{}},
	{plan.EventCreated, plan.Plan{}}, {plan.EventPlanned, plan.PlannedEvent{}}, {plan.EventState, plan.StateEvent{}},
	{plan.EventItem, plan.ItemEvent{}}, {plan.EventEdited, plan.EditedEvent{}}, {plan.EventAmendment, plan.AmendmentEvent{}}, {plan.EventFinished, plan.Plan{}},
	{api.EventHookReceived, api.HookEvent{}}, {api.EventHookStarted, api.HookEvent{}}, {api.EventHookEnded, api.HookEvent{}}, {api.EventHookComment, api.HookEvent{}},
}

// union defines the events as one schema for each type, which its discriminator tells apart. The
// names of a run's events are those of its stream.
func (s *schemas) union(t reflect.Type) node {
	name := titled(t.Name())
	if s.named[name] == nil {
		s.named[name] = t
		one, mapping := []any{}, node{}
		for _, e := range eventData {
			kind := string(e.event)
			if t == reflect.TypeFor[runEvent]() {
				if !strings.HasPrefix(kind, "task.") {
					continue
				}
				kind = e.event.RunName()
			}
			part := name
			for _, word := range strings.FieldsFunc(kind, func(r rune) bool { return r == '.' || r == '_' }) {
				part += titled(word)
			}
			object := s.object(reflect.TypeFor[api.Event]())
			properties := object["properties"].(node)
			properties["type"] = node{"type": "string", "const": kind}
			properties["data"] = s.of(e.data)
			s.defined[part] = object
			ref := "#/components/schemas/" + part
			one, mapping[kind] = append(one, node{"$ref": ref}), ref
		}
		s.defined[name] = node{"oneOf": one, "discriminator": node{"propertyName": "type", "mapping": mapping}}
	}
	return node{"$ref": "#/components/schemas/" + name}
}

// schemaName returns the name of a type in the document. Types of packages secrets, session and plan have
// short names, which would say too little there.
func schemaName(t reflect.Type) string {
	if t.PkgPath() == reflect.TypeFor[secrets.Secret]().PkgPath() && t.Name() != "Secret" {
		return "Secret" + t.Name()
	}
	if t.PkgPath() == reflect.TypeFor[session.Session]().PkgPath() && t.Name() != "Session" {
		return "Session" + t.Name()
	}
	if t.PkgPath() == reflect.TypeFor[plan.Plan]().PkgPath() && t.Name() != "Plan" {
		return "Plan" + t.Name()
	}
	return t.Name()
}

func (s *schemas) object(t reflect.Type) node {
	properties := node{}
	var required []string
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" || len(f.Index) > 1 && !promoted(t, f) || !f.IsExported() || name == "-" {
			continue
		}
		name = cmp.Or(name, f.Name)
		properties[name] = s.ofType(f.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	out := node{"type": "object", "properties": properties}
	if required != nil {
		out["required"] = required
	}
	return out
}

// promoted reports whether a field of an embedded struct is one of the outer's in JSON.
func promoted(t reflect.Type, f reflect.StructField) bool {
	for _, i := range f.Index[:len(f.Index)-1] {
		outer := t.Field(i)
		if name, _, _ := strings.Cut(outer.Tag.Get("json"), ","); !outer.Anonymous || name != "" {
			return false
		}
		t = outer.Type
	}
	return true
}

func status(n int) string { return strconv.Itoa(statusOf(n)) }
