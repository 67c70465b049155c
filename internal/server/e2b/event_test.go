package e2b_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/e2b"
	"hortus.dev/internal/server/webhook"
	"hortus.dev/internal/store/database"
)

// TestEventRoutes lists events and keeps webhooks as clients of E2B do. Another account has none of them.
func TestEventRoutes(t *testing.T) {
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	hooks := webhook.New(webhook.Config{Rows: db, Encode: e2b.EncodeEvent, Dial: func(context.Context, string, int) (net.Conn, error) {
		return nil, api.Errorf(api.KindDenied, "nothing is sent here")
	}})
	defer hooks.Close(t.Context())
	w := newWorld(t, func(cfg *e2b.Config) { cfg.Events = hooks })
	now := time.Now()
	box := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxRunning, Account: "a", Template: api.HostTemplate, CreatedAt: now, ExpiresAt: now, Labels: map[string]string{"k": "v"}}
	if err := db.InsertSandbox(t.Context(), box); err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		t    api.EventType
		data string
	}{
		{api.EventSandboxState, `{"state":"running"}`}, {api.EventUpdated, `{"expiresAt":"2026-01-02T03:04:05Z"}`}, {api.EventSandboxState, `{"state":"ended","reason":"killed"}`},
	} {
		if _, err := db.AppendEvent(t.Context(), api.Stream{Kind: api.StreamSandbox, ID: string(box.ID)}, e.t, now, json.RawMessage(e.data)); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]string{string(box.ID): "BOX"}
	var listed []struct{ ID string }
	r := w.ask(t, "GET", "/events/sandboxes", "")
	if err := json.Unmarshal([]byte(r.body), &listed); err != nil || len(listed) != 3 {
		t.Fatal(r.body, err)
	}
	ids[listed[0].ID], ids[listed[1].ID] = "E3", "E2"
	const rest = `,"timestamp":"TIME","sandboxId":"BOX","sandboxExecutionId":"BOX","sandboxTemplateId":"base","sandboxBuildId":"","sandboxTeamId":"a"}`
	killed := `{"version":"v1","id":"E3","type":"sandbox.lifecycle.killed","eventData":{"sandbox_metadata":{"k":"v"},"reason":"killed"}` + rest
	updated := `{"version":"v1","id":"E2","type":"sandbox.lifecycle.updated","eventData":{"sandbox_metadata":{"k":"v"},"set_timeout":"TIME"}` + rest
	one := "/events/sandboxes/" + string(box.ID)
	golden(t, w.ask(t, "GET", one+"?limit=2", ""), http.StatusOK, ids, "["+killed+","+updated+"]")
	golden(t, w.ask(t, "GET", "/events/sandboxes?orderAsc=true&offset=1", ""), http.StatusOK, ids, "["+updated+","+killed+"]")
	golden(t, w.ask(t, "GET", "/events/sandboxes?types=sandbox.lifecycle.updated&types=sandbox.lifecycle.paused", ""), http.StatusOK, ids, "["+updated+"]")

	r = w.ask(t, "POST", "/events/webhooks", `{"name":"n","url":"https://example.com/a","events":["sandbox.lifecycle.killed"],"signatureSecret":"canary-secret"}`)
	var hook struct{ ID string }
	if err := json.Unmarshal([]byte(r.body), &hook); err != nil {
		t.Fatal(r.body, err)
	}
	ids[hook.ID] = "HOOK"
	row := func(enabled, url string) string {
		return `{"id":"HOOK","teamId":"a","name":"n","createdAt":"TIME","enabled":` + enabled + `,"url":"` + url + `","events":["sandbox.lifecycle.killed"]}`
	}
	path := "/events/webhooks/" + hook.ID
	golden(t, r, http.StatusCreated, ids, row("true", "https://example.com/a"))
	for _, c := range []struct{ method, path, body, says string }{
		{"GET", path, ``, ""}, {"DELETE", path, ``, ""}, {"PATCH", path, `{"enabled":false}`, ""}, {"GET", path + "/deliveries", ``, ""},
		{"GET", "/events/webhooks/none", ``, ""},
		{"GET", "/events/sandboxes?limit=0", ``, "limit"}, {"GET", "/events/sandboxes?limit=101", ``, "limit"}, {"GET", "/events/sandboxes?offset=-1", ``, "offset"},
		{"GET", "/events/sandboxes?orderAsc=up", ``, "orderAsc"}, {"GET", "/events/sandboxes?types=created", ``, "types"}, {"GET", "/events/sandboxes?color=1", ``, "color"},
		{"POST", "/events/webhooks", `{}`, "secret"}, {"POST", "/events/webhooks", `{"color":1}`, "color"},
		{"POST", "/events/webhooks", `{"name":"n","url":"http://example.com","events":["sandbox.lifecycle.killed"],"signatureSecret":"s"}`, "https"},
		{"POST", "/events/webhooks", `{"name":"n","url":"https://example.com","events":["sandbox.lifecycle.born"],"signatureSecret":"s"}`, "born"},
		{"PATCH", "/events/webhooks/none", `{"signatureSecret":""}`, "signatureSecret"},
	} {
		want, says := http.StatusBadRequest, c.says
		if says == "" {
			want, says = http.StatusNotFound, "was not found"
		}
		if r := w.ask(t, c.method, c.path, c.body, "X-API-KEY", keyB); r.status != want || !strings.Contains(r.body, says) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, r.status, r.body)
		}
	}
	for _, path := range []string{"/events/webhooks", "/events/sandboxes", one} {
		for _, key := range []string{keyB, keyAdmin} {
			if r := w.ask(t, "GET", path, "", "X-API-KEY", key); r.status != http.StatusOK || r.body != "[]\n" {
				t.Errorf("%s: %d %s", path, r.status, r.body)
			}
		}
	}
	golden(t, w.ask(t, "PATCH", path, `{"enabled":false,"url":"https://example.com/b"}`), http.StatusOK, ids, row("false", "https://example.com/b"))
	golden(t, w.ask(t, "GET", path+"/deliveries", ""), http.StatusOK, ids, `[]`)
	r = w.ask(t, "GET", "/events/webhooks", "")
	golden(t, r, http.StatusOK, ids, "["+row("false", "https://example.com/b")+"]")
	if strings.Contains(r.body, "canary") {
		t.Error("the secret is shown")
	}
	golden(t, w.ask(t, "DELETE", path, ""), http.StatusOK, ids, row("false", "https://example.com/b"))
	if r := w.ask(t, "GET", path, ""); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.body)
	}
}
