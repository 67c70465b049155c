package session_test

import (
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/session"
)

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"a": true, "Support-1": true, "user@example.org:7": true, "a.b_c": true, strings.Repeat("k", session.MaxKey): true,
		"": false, ".": false, "..": false, "-x": false, "a/b": false, "a b": false, "ä": false, "a\x00": false, "a%2f": false, strings.Repeat("k", session.MaxKey+1): false,
	} {
		if err := session.CheckKey(key); (err == nil) != ok || err != nil && api.KindOf(err) != api.KindInvalid {
			t.Errorf("%.20q: %v", key, err)
		}
	}
}

func FuzzCheckKey(f *testing.F) {
	f.Add("support-1")
	f.Add("../x")
	f.Fuzz(func(t *testing.T, key string) {
		if session.CheckKey(key) == nil && (strings.ContainsAny(key, "/\\ \n\x00%?#") || key == "." || key == ".." || key == "") {
			t.Errorf("%q is a key", key)
		}
	})
}

func TestCheckSettings(t *testing.T) {
	for name, test := range map[string]struct {
		set session.Settings
		ok  bool
	}{
		"nothing":           {session.Settings{}, true},
		"all times":         {session.Settings{WarmMS: 1, PausedMS: 1, TTLMS: 1}, true},
		"none of them":      {session.Settings{WarmMS: -1, PausedMS: -1}, true},
		"a repository":      {session.Settings{Repository: "https://example.org/x", Ref: "main", NoSetup: true}, true},
		"a ref alone":       {session.Settings{Ref: "main"}, false},
		"no setup of none":  {session.Settings{NoSetup: true}, false},
		"variables":         {session.Settings{Sandbox: api.CreateSandbox{Env: map[string]string{"A": "b"}}}, false},
		"a time to live":    {session.Settings{Sandbox: api.CreateSandbox{TTLMS: 1}}, false},
		"an expiry":         {session.Settings{Sandbox: api.CreateSandbox{OnExpiry: api.ExpiryPause}}, false},
		"a workspace":       {session.Settings{Sandbox: api.CreateSandbox{Workspace: "w"}}, false},
		"a task":            {session.Settings{Sandbox: api.CreateSandbox{Task: api.NewTaskID()}}, false},
		"too warm":          {session.Settings{WarmMS: session.MaxWarm.Milliseconds() + 1}, false},
		"below":             {session.Settings{PausedMS: -2}, false},
		"paused, not warm":  {session.Settings{WarmMS: -1, PausedMS: 5}, false},
		"too long":          {session.Settings{TTLMS: session.MaxTTL.Milliseconds() + 1}, false},
		"half an author":    {session.Settings{Author: api.Identity{Name: "Ada"}}, false},
		"a whole author":    {session.Settings{Author: api.Identity{Name: "Ada", Email: "ada@example.org"}}, true},
		"labels of no name": {session.Settings{Sandbox: api.CreateSandbox{Labels: map[string]string{"": "x"}}}, false},
	} {
		if err := test.set.Check(); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	set := session.Settings{}
	if set.Warm() != session.DefaultWarm || set.Paused() != session.DefaultPaused || set.TTL() != session.DefaultTTL {
		t.Error("the defaults are others")
	}
	set = session.Settings{WarmMS: -1, PausedMS: 7, TTLMS: 9}
	if set.Warm() != 0 || set.Paused() != 7*time.Millisecond || set.TTL() != 9*time.Millisecond {
		t.Error("the times are others")
	}
}

func TestCheckMessage(t *testing.T) {
	for name, test := range map[string]struct {
		m  session.Message
		ok bool
	}{
		"plain":     {session.Message{Text: "hi"}, true},
		"longest":   {session.Message{Text: strings.Repeat("a", session.MaxText)}, true},
		"interrupt": {session.Message{Text: "hi", Mode: session.Interrupt}, true},
		"empty":     {session.Message{Text: " \n"}, false},
		"too long":  {session.Message{Text: strings.Repeat("a", session.MaxText+1)}, false},
		"NUL":       {session.Message{Text: "a\x00"}, false},
		"bytes":     {session.Message{Text: "\xff"}, false},
		"mode":      {session.Message{Text: "hi", Mode: "later"}, false},
		"settings":  {session.Message{Text: "hi", Create: &session.Settings{Ref: "x"}}, false},
	} {
		if err := test.m.Check(); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
