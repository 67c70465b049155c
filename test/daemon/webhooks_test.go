package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/test/world"
)

// TestWebhooks: the life of a sandbox is listed for its account. What a webhook of the account leads to on this
// machine is refused, before and after a restart of the daemon, and another account sees none of it.
func TestWebhooks(t *testing.T) {
	w := newTown(t)
	w.Isolates(t, "")
	var inside atomic.Int64
	private := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside.Add(1) }))
	defer private.Close()
	alice, bob := w.alice.Secret, w.bob.Secret
	call := func(key, method, path, body string, status int) string {
		t.Helper()
		got, answer := w.Call(method, path, body, "X-API-KEY", key)
		if got != status {
			t.Fatalf("%s %s: %d %s", method, path, got, answer)
		}
		return answer
	}
	var hook struct{ ID string }
	answer := call(alice, "POST", "/events/webhooks", `{"name":"n","url":"`+private.URL+`","signatureSecret":"canary-hook","events":["sandbox.lifecycle.created","sandbox.lifecycle.killed"]}`, 201)
	if err := json.Unmarshal([]byte(answer), &hook); err != nil {
		t.Fatal(err)
	}
	var box struct{ SandboxID string }
	if err := json.Unmarshal([]byte(call(alice, "POST", "/v2/sandboxes", `{"templateID":"base","metadata":{"a":"b"}}`, 201)), &box); err != nil {
		t.Fatal(err)
	}
	call(alice, "POST", "/sandboxes/"+box.SandboxID+"/timeout", `{"timeout":900}`, 204)
	call(alice, "DELETE", "/sandboxes/"+box.SandboxID, "", 204)
	types := func(key, path string) string {
		var all []struct{ Type string }
		if err := json.Unmarshal([]byte(call(key, "GET", path, "", 200)), &all); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range all {
			names = append(names, strings.TrimPrefix(e.Type, "sandbox.lifecycle."))
		}
		return strings.Join(names, " ")
	}
	for _, path := range []string{"/events/sandboxes?orderAsc=true", "/events/sandboxes/" + box.SandboxID + "?orderAsc=true"} {
		world.Eventually(t, "the events of the sandbox", func() bool { return types(alice, path) == "created updated killed" })
		if got := types(bob, path); got != "" {
			t.Errorf("bob sees %s", got)
		}
	}
	refused := func() int {
		return strings.Count(call(alice, "GET", "/events/webhooks/"+hook.ID+"/deliveries", "", 200), "address")
	}
	world.Eventually(t, "a refused delivery", func() bool { return refused() > 0 })
	before := refused()
	w.Restart()
	world.Eventually(t, "a refused delivery after the restart", func() bool { return refused() > before })
	call(bob, "GET", "/events/webhooks/"+hook.ID+"/deliveries", "", 404)
	if n := inside.Load(); n != 0 {
		t.Errorf("%d requests arrived on this machine", n)
	}
}
