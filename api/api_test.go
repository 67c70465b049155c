package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestKindsAreMappedOnce(t *testing.T) {
	statuses := map[int]bool{}
	for _, k := range Kinds {
		s := k.HTTPStatus()
		if s < 400 || s > 599 {
			t.Errorf("%s has status %d, which is no error", k, s)
		}
		if c := k.ExitCode(); c < 1 || c > 255 {
			t.Errorf("%s has exit code %d", k, c)
		}
		statuses[s] = true
	}
	if len(statuses) < 10 {
		t.Errorf("only %d statuses for %d kinds", len(statuses), len(Kinds))
	}
	for kind, code := range map[Kind]int{KindInvalid: 2, KindDeclined: 3, KindUnisolated: 4, KindCanceled: 130, KindInternal: 1} {
		if kind.ExitCode() != code {
			t.Errorf("%s exits with %d; want %d", kind, kind.ExitCode(), code)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		kind Kind
		text string
		hint string
	}{
		{"nil", nil, "", "<nil>", ""},
		{"plain", io.EOF, KindInternal, "EOF", ""},
		{"canceled", fmt.Errorf("x: %w", context.Canceled), KindCanceled, "x: context canceled", ""},
		{"deadline", context.DeadlineExceeded, KindTimeout, "context deadline exceeded", ""},
		{"ours", Errorf(KindNotFound, "no sandbox %s", "i1"), KindNotFound, "no sandbox i1", ""},
		{"with a cause", Errorf(KindInternal, "read: %w", io.EOF), KindInternal, "read: EOF", ""},
		{"wrapped", fmt.Errorf("outer: %w", Errorf(KindDenied, "inner").WithHint("ask %s", "root")), KindDenied, "outer: inner", "ask root"},
		{"ours in ours", Errorf(KindTimeout, "outer: %w", Errorf(KindDenied, "inner")), KindTimeout, "outer: inner", ""},
	} {
		if got := KindOf(c.err); got != c.kind {
			t.Errorf("%s: kind %q, want %q", c.name, got, c.kind)
		}
		if got := fmt.Sprint(c.err); got != c.text {
			t.Errorf("%s: text %q, want %q", c.name, got, c.text)
		}
		if got := HintOf(c.err); got != c.hint {
			t.Errorf("%s: hint %q, want %q", c.name, got, c.hint)
		}
		if c.err == nil {
			continue
		}
		e := AsError(c.err)
		if e.Kind != c.kind || e.Error() != c.text || e.Hint != c.hint {
			t.Errorf("%s: as an Error: %+v", c.name, e)
		}
		b, err := json.Marshal(e)
		var back Error
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || back.Kind != c.kind || back.Message != c.text || back.Hint != c.hint {
			t.Errorf("%s: over the wire %s: %+v, %v", c.name, b, back, err)
		}
	}
	if !errors.Is(Errorf(KindInternal, "read: %w", io.EOF), io.EOF) {
		t.Error("the cause is lost")
	}
	if AsError(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		s, x, k := NewSandboxID(), NewExecID(), NewTaskID()
		if !s.Valid() || !x.Valid() || !k.Valid() {
			t.Fatalf("%q %q %q: not valid", s, x, k)
		}
		for _, id := range []string{string(s), string(x), string(k)} {
			if seen[id] {
				t.Fatalf("%q came twice", id)
			}
			seen[id] = true
		}
	}
	for _, bad := range []SandboxID{"", "i", "x" + SandboxID(strings.Repeat("a", 19)), "i" + SandboxID(strings.Repeat("a", 18)),
		"i" + SandboxID(strings.Repeat("a", 20)), "i../../../../../etc/pa", "iAAAAAAAAAAAAAAAAAAA", "i\x00aaaaaaaaaaaaaaaaaa"} {
		if bad.Valid() {
			t.Errorf("%q is taken for an id", bad)
		}
	}
	if s := TaskID("t4f2axxxxxxxxxxxxxxx").Short(); s != "4f2a" {
		t.Errorf("short form %q", s)
	}
	if s := TaskID("t").Short(); s != "t" {
		t.Errorf("short form of a broken id %q", s)
	}
}

func TestStates(t *testing.T) {
	for s, final := range map[SandboxState]bool{SandboxStarting: false, SandboxRunning: false, SandboxPaused: false, SandboxEnded: true, SandboxLost: true} {
		if s.Final() != final {
			t.Errorf("%s final: %v", s, s.Final())
		}
	}
	r := BackendReport{Abilities: []Ability{{Capability: CapPause, Reason: "no"}}}
	if a, ok := r.Has(CapPause); ok || a.Reason != "no" {
		t.Errorf("%+v, %v", a, ok)
	}
	if a, ok := r.Has(CapStart); ok || a.Reason == "" {
		t.Errorf("what is not reported: %+v, %v", a, ok)
	}
	if d := DefaultLimits(); d.CPUs <= 0 || d.MemoryBytes <= 0 || d.Processes <= 0 || d.DiskBytes <= 0 {
		t.Errorf("defaults %+v", d)
	}
}

// TestExitOfExec: a record has an exit exactly if the command has ended, a success too.
func TestExitOfExec(t *testing.T) {
	for _, c := range []struct {
		x    Exec
		want string
	}{
		{Exec{State: ExecRunning, Exit: Exit{Code: -1}}, ""},
		{Exec{State: ExecExited}, `"exit":{"code":0}`},
		{Exec{State: ExecExited, Exit: Exit{Code: 3}}, `"exit":{"code":3}`},
		{Exec{State: ExecUnknown, Exit: Exit{Code: -1, Cause: CauseLost}}, `"exit":{"code":-1,"cause":"lost"}`},
	} {
		b, err := json.Marshal(c.x)
		if err != nil || strings.Contains(string(b), `"exit"`) != (c.want != "") || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: %s, %v", c.x.State, b, err)
		}
	}
}
