package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	server "hortus.dev/internal/server/mcp"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

// endpoint is a POST /mcp of its own before the API of a daemon, with a key: what a test sends needs none. Its calls return after hold.
func endpoint(t *testing.T, w *world.World, key api.CreatedKey, hold time.Duration) string {
	t.Helper()
	daemon := world.Must(url.Parse(w.URL))(t)
	through := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(daemon)
		r.Out.Header.Set("Authorization", "Bearer "+key.Secret)
	}}
	handler, inside, on := server.NewHandler(server.HandlerConfig{
		Server: server.New(server.Config{Hold: hold}), API: through, Fail: func(w http.ResponseWriter, err error) { http.Error(w, err.Error(), http.StatusBadRequest) },
	})
	ended := make(chan error, 1)
	go func() { ended <- inside.Serve(on) }()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(api.WithPrincipal(r.Context(), api.Principal{Account: key.Account, Role: api.RoleUser})))
	}))
	t.Cleanup(func() {
		s.Close()
		inside.Close()
		<-ended
	})
	return s.URL + "/mcp"
}

// answer is what a request got.
type answer struct {
	Status int
	Result map[string]any
	Error  struct {
		Code    int
		Message string
		Data    any
	}
}

// ask sends a request of 2026-07-28 with the given capabilities, as any program would.
func ask(t *testing.T, endpoint, method, name, capabilities, params string) (out answer) {
	t.Helper()
	meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":%q,"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}`, stateless, capabilities)
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,%s}}`, method, params, meta)
	req := world.Must(http.NewRequestWithContext(t.Context(), "POST", endpoint, strings.NewReader(body)))(t)
	for _, h := range [][2]string{{"Content-Type", jsonType}, {"Accept", accept}, {"MCP-Protocol-Version", stateless}, {"Mcp-Method", method}, {"Mcp-Name", name}} {
		req.Header.Set(h[0], h[1])
	}
	resp := world.Must(http.DefaultClient.Do(req))(t)
	defer resp.Body.Close()
	message := []byte(nil)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		events := bufio.NewScanner(resp.Body)
		events.Buffer(nil, 4<<20)
		for events.Scan() {
			if data, ok := strings.CutPrefix(events.Text(), "data: "); ok && data != "" {
				message = []byte(data)
			}
		}
	} else {
		message = world.Must(io.ReadAll(resp.Body))(t)
	}
	if err := json.Unmarshal(message, &out); err != nil {
		t.Fatalf("%s: %s %.300s: %v", method, resp.Status, message, err)
	}
	out.Status = resp.StatusCode
	return out
}

const (
	withTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	withForms = `{"extensions":{"io.modelcontextprotocol/tasks":{}},"elicitation":{"form":{}}}`
)

// longCalls: a client with the extension for tasks gets one for a call that continues, and its result later; others get a handle.
func longCalls(t *testing.T, w *world.World) {
	key := w.Key("alice", "")
	p := remote(t, w, key, options{version: stateless})
	box := p.create(map[string]any{"ttl_seconds": 600, "egress": []string{"ask"}})
	at := endpoint(t, w, key, 300*time.Millisecond)
	execAt := func(at, caps, command string) answer {
		t.Helper()
		return ask(t, at, "tools/call", "exec", caps, fmt.Sprintf(`"name":"exec","arguments":{"sandbox_id":%q,"command":%q}`, box, command))
	}
	exec := func(caps, command string) answer {
		t.Helper()
		return execAt(at, caps, command)
	}
	of := func(method, caps string, task any, more string) answer {
		t.Helper()
		id := task.(string)
		return ask(t, at, method, id, caps, fmt.Sprintf(`"taskId":%q`, id)+more)
	}
	settled := func(task any) (r map[string]any) {
		t.Helper()
		for r = of("tasks/get", withTasks, task, "").Result; r["status"] == "working"; {
			r = of("tasks/get", withTasks, task, "").Result
		}
		return r
	}
	// No command is surely ended within the time of the other calls.
	if r := execAt(endpoint(t, w, key, patience.Of(time.Minute)), withTasks, "echo quick").Result; r["resultType"] != "complete" || r["structuredContent"].(map[string]any)["output"] != "quick\n" {
		t.Errorf("a quick command: %v", r)
	}
	if r := exec(`{}`, "sleep 3600").Result; r["resultType"] != "complete" || r["structuredContent"].(map[string]any)["state"] != "running" {
		t.Errorf("without the extension: %v", r)
	}
	a := ask(t, at, "tools/call", "exec", withTasks, fmt.Sprintf(`"name":"exec","arguments":{"sandbox_id":%q,"command":"sleep 3600","wait_seconds":0}`, box))
	if a.Result["resultType"] != "complete" || a.Result["structuredContent"].(map[string]any)["state"] != "running" {
		t.Errorf("a call that wants the handle: %v", a.Result)
	}

	r := exec(withTasks, "until [ -e go ]; do sleep 0.05; done; echo late; exit 3").Result
	if r["resultType"] != "task" || r["status"] != "working" || r["ttlMs"].(float64) < 500_000 || r["pollIntervalMs"].(float64) <= 0 || r["content"] != nil || r["createdAt"] == nil {
		t.Fatalf("a command that continues: %v", r)
	}
	task := r["taskId"]
	if g := of("tasks/get", withTasks, task, "").Result; g["status"] != "working" || g["result"] != nil || g["resultType"] != "complete" {
		t.Errorf("while it runs: %v", g)
	}
	p.call("file_write", map[string]any{"sandbox_id": box, "path": "go", "content": ""})
	end := settled(task)
	result, _ := end["result"].(map[string]any)
	if x, _ := result["structuredContent"].(map[string]any); end["status"] != "completed" || x["output"] != "late\n" || x["exit_code"] != 3.0 || len(result["content"].([]any)) != 1 || result["resultType"] != "complete" {
		t.Errorf("at its end: %v", end)
	}

	stopped := exec(withTasks, "sleep 3600").Result["taskId"]
	for range 2 { // also one that has ended
		if c := of("tasks/cancel", withTasks, stopped, ""); c.Result["resultType"] != "complete" || c.Result["taskId"] != nil {
			t.Errorf("tasks/cancel: %+v", c)
		}
	}
	if end := settled(stopped); end["status"] != "cancelled" || end["result"] != nil {
		t.Errorf("a canceled command: %v", end)
	}

	written := ask(t, at, "tools/call", "run", withTasks, `"name":"run","arguments":{"request":"print the first 5 prime numbers"}`).Result
	if written["resultType"] == "task" {
		written = settled(written["taskId"])["result"].(map[string]any)
	}
	if out := written["structuredContent"].(map[string]any); out["outcome"] != "verified" || out["stdout"] != "2, 3, 5, 7, 11\n" {
		t.Errorf("run: %v", out)
	}

	// A connection that waits for a person: the client asks its user, or tells the command.
	r = exec(withTasks, "sleep 1; python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", 3128)); "+
		"s.sendall(b\"CONNECT example.org:81 HTTP/1.1\\r\\nHost: example.org:81\\r\\n\\r\\n\"); print(s.recv(100))'").Result
	task = r["taskId"]
	if r["status"] == "working" {
		for r = of("tasks/get", withForms, task, "").Result; r["status"] == "working"; {
			r = of("tasks/get", withForms, task, "").Result
		}
	}
	requests, _ := r["inputRequests"].(map[string]any)
	if r["status"] != "input_required" || len(requests) != 1 {
		t.Fatalf("a connection that waits: %v", r)
	}
	if g := of("tasks/get", withTasks, task, "").Result; g["status"] != "working" || !strings.Contains(fmt.Sprint(g["statusMessage"]), "hortus egress answer ") {
		t.Errorf("for a client without forms: %v", g)
	}
	for id, request := range requests {
		if message := fmt.Sprint(request); !strings.Contains(message, "elicitation/create") || !strings.Contains(message, `"example.org", port 81`) {
			t.Errorf("the question is %s", message)
		}
		if u := of("tasks/update", withForms, task, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"decision":"deny"}}}`, id)); u.Result["resultType"] != "complete" {
			t.Errorf("tasks/update: %+v", u)
		}
	}
	if end := settled(task); end["status"] != "completed" || !strings.Contains(fmt.Sprint(end["result"]), "403") {
		t.Errorf("after the denial: %v", end)
	}

	t.Run("strangers", func(t *testing.T) {
		running := exec(withTasks, "sleep 3600").Result["taskId"].(string)
		bob := endpoint(t, w, w.Key("bob", ""), time.Second)
		for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
			nothing := box[:len(box)-4] + "aaaa/" + running[strings.Index(running, "/")+1:]
			for _, id := range []string{running, nothing, box + "/x", "../" + box, "", "a/b/c", "t" + strings.Repeat("a", 19)} {
				if a := ask(t, bob, method, id, withTasks, fmt.Sprintf(`"taskId":%q`, id)); a.Error.Code != -32602 || a.Status != http.StatusBadRequest {
					t.Errorf("%s of %q: %+v", method, id, a)
				}
			}
			if a := of(method, `{}`, running, ""); a.Error.Code != -32021 || a.Status != http.StatusBadRequest || !strings.Contains(fmt.Sprint(a.Error.Data), "io.modelcontextprotocol/tasks") {
				t.Errorf("%s without the extension: %+v", method, a)
			}
			if a := ask(t, at, method, "other", withTasks, fmt.Sprintf(`"taskId":%q`, running)); a.Error.Code != -32020 {
				t.Errorf("%s with the name of another task: %+v", method, a)
			}
		}
		if g := of("tasks/get", withTasks, running, "").Result; g["status"] != "working" {
			t.Errorf("after strangers: %v", g)
		}
		for _, method := range []string{"tasks/list", "tasks/result", "prompts/list", "resources/list"} {
			if a := ask(t, at, method, "", withTasks, `"x":1`); a.Error.Code != -32601 || a.Status != http.StatusNotFound {
				t.Errorf("%s: %+v", method, a)
			}
		}
	})
}
