package audit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestAlarms: bursts of denials and regular requests are alarms in the records, in the sandbox's log and in that of the
// daemon; what programs usually do is none.
func TestAlarms(t *testing.T) {
	r := newRig(t)
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	rec := NewRecorder(Config{Store: r.db, Events: r.log, Now: func() time.Time { return now }, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	add := func(id api.SandboxID, result api.EgressResult, op, host, path string, count int) {
		rec.Record(api.EgressDecision{Sandbox: id, Account: "a", Result: result, Op: op, Host: host, Port: 443, Class: api.EgressWeb, Method: "GET", Path: path, Count: count})
	}
	denied := func(id api.SandboxID, n, count int) {
		for i := range n {
			add(id, api.EgressDenied, "connect", fmt.Sprintf("h%d.example.org", i), "", count)
		}
	}
	every := func(id api.SandboxID, n int, pauses ...time.Duration) {
		for i := range n {
			add(id, api.EgressAllowed, "request", "data.example.org", "/set", 0)
			now = now.Add(pauses[i%len(pauses)])
		}
	}
	denied("few", 100, 0)
	denied("burst", 101, 0)
	denied("burst", 50, 0)
	add("folded", api.EgressDenied, "connect", "*", "", 101)
	for range 3 {
		denied("tries again", 30, 5)
	}
	now = now.Add(time.Minute)
	denied("few", 100, 0)
	every("polls", 40, 5*time.Second, 5500*time.Millisecond)
	every("busy", 100, 100*time.Millisecond)
	every("a person", 60, 5*time.Second, 9*time.Second, 2*time.Second)
	every("a short wait", 20, 5*time.Second)
	for i := range 40 { // an install
		add("install", api.EgressAllowed, "request", "npm.example.org", fmt.Sprint("/p", i), 0)
		now = now.Add(2 * time.Second)
	}
	if err := rec.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	got := map[api.SandboxID]string{}
	for _, d := range r.rows() {
		if d.Result != api.EgressAlarm {
			continue
		}
		if d.Op != api.EgressOpAlarm || d.Account != "a" || got[d.Sandbox] != "" {
			t.Errorf("%+v", d)
		}
		got[d.Sandbox] = d.Reason
		told := 0
		for _, e := range r.events(d.Sandbox) {
			if e.Result == api.EgressAlarm {
				told++
			}
		}
		if told != 1 || strings.Count(log.String(), "sandbox="+string(d.Sandbox)) != 1 {
			t.Errorf("%s: %d events, log %s", d.Sandbox, told, log.String())
		}
	}
	if len(got) != 3 || !strings.Contains(got["burst"], "denied") || !strings.Contains(got["folded"], "denied") || !strings.Contains(got["polls"], "every 5.") {
		t.Errorf("alarms %v", got)
	}
}

// TestWatchBounded: what is watched has a limit, and what is old makes way.
func TestWatchBounded(t *testing.T) {
	w := newWatch()
	now := time.Unix(1000, 0)
	for round := range 2 {
		for i := range 3 * maxWatched {
			id := api.SandboxID(fmt.Sprint(round, "-", i))
			w.see(api.EgressDecision{Sandbox: id, Op: "connect", Result: api.EgressDenied}, now)
			w.see(api.EgressDecision{Sandbox: id, Op: "request", Result: api.EgressAllowed}, now)
		}
		if len(w.denied) != maxWatched || len(w.polls) != maxWatched || w.denied[api.SandboxID(fmt.Sprint(round, "-0"))] == nil {
			t.Errorf("round %d: %d sandboxes and %d requests", round, len(w.denied), len(w.polls))
		}
		now = now.Add(time.Hour)
	}
}
