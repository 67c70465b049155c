package mcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/test/patience"
	"hortus.dev/test/world"
)

// page is the origin of pages that may use the daemon.
const page = "https://app.example.org"

// TestServer has everything done with one daemon, whose sandboxes are on this machine's kernel because they begin quickly.
func TestServer(t *testing.T) {
	cfg := world.Config{Outside: world.NewOutside(t)}
	cfg.Usual.Isolation, cfg.Front.Origins = "container", []string{page}
	w := world.Open(t, cfg)
	t.Run("strangers", func(t *testing.T) { requestsOfStrangers(t, w) })
	w.Isolates(t, "container")
	for name, test := range map[string]func(*testing.T, *world.World){
		"sessions": sessions, "hold": holdsNoCall, "tasks": tasks, "approvals": approvals, "account": anotherAccount, "output": outputIsData,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, w)
		})
	}
}

// sessions has an agent try two changes in forks of a sandbox and compare them, in both eras over both transports.
func sessions(t *testing.T, w *world.World) {
	key := w.Key("alice", "")
	for _, version := range []string{handshake, stateless} {
		for name, begin := range map[string]func(*testing.T) *peer{
			"stdio": func(t *testing.T) *peer { return stdio(t, w.Client, time.Minute, options{version: version}) },
			"http":  func(t *testing.T) *peer { return remote(t, w, key, options{version: version}) },
		} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				p := begin(t)
				if got := p.InitializeResult().ProtocolVersion; got != version {
					t.Fatalf("the session has version %s", got)
				}
				session(t, p)
			})
		}
	}
}

func session(t *testing.T, p *peer) {
	box := p.create(nil)
	id := func(more ...any) map[string]any {
		args := map[string]any{"sandbox_id": box}
		for i := 0; i < len(more); i += 2 {
			args[more[i].(string)] = more[i+1]
		}
		return args
	}
	p.call("file_write", id("path", "sum.py", "content", "print(1 < 2, 'ä')\n"))
	if f := p.call("file_read", id("path", "sum.py")); f["content"] != "print(1 < 2, 'ä')\n" || f["encoding"] != "utf-8" {
		t.Errorf("file_read: %v", f)
	}
	p.call("file_write", id("path", "bytes", "content", "/wA=", "encoding", "base64"))
	if f := p.call("file_read", id("path", "bytes")); f["content"] != "/wA=" || f["encoding"] != "base64" {
		t.Errorf("file_read of bytes: %v", f)
	}
	if all := fmt.Sprint(p.call("file_list", id())["entries"]); !strings.Contains(all, "/workspace/sum.py") {
		t.Errorf("file_list: %s", all)
	}
	if x := p.call("exec", id("command", "echo out; echo err >&2; exit 3")); x["output"] != "out\nerr\n" || x["exit_code"] != 3.0 || x["state"] != "exited" {
		t.Errorf("exec: %v", x)
	}
	for language, code := range map[string]string{"python": "print(6 * 7)", "bash": "for i in 42; do echo $i; done"} {
		if x := p.call("run_code", id("language", language, "code", code)); x["output"] != "42\n" || x["exit_code"] != 0.0 {
			t.Errorf("run_code %s: %v", language, x)
		}
	}
	children := p.call("sandbox_fork", id("count", 2))["children"].([]any)
	var found []string
	for i, c := range children {
		args := map[string]any{"sandbox_id": c.(map[string]any)["sandbox_id"], "command": fmt.Sprintf("echo %d >> sum.py; tail -n 1 sum.py", i)}
		found = append(found, p.call("exec", args)["output"].(string))
	}
	if !slices.Equal(found, []string{"0\n", "1\n"}) {
		t.Errorf("the forks have %q", found)
	}
	if f := p.call("file_read", id("path", "sum.py")); f["content"] != "print(1 < 2, 'ä')\n" {
		t.Errorf("a fork changed its parent: %v", f)
	}
	long(t, p, id)
	if u := p.call("preview_url", id("port", 3000)); u["listening"] != false || !strings.Contains(fmt.Sprint(u["url"]), "3000-"+box+".localhost:") {
		t.Errorf("preview_url: %v", u)
	}
	if all := fmt.Sprint(p.call("sandbox_list", nil)); !strings.Contains(all, box) {
		t.Errorf("sandbox_list: %s", all)
	}
	if k := p.call("sandbox_kill", id()); k["state"] != "ended" || k["processes_left"] != 0.0 {
		t.Errorf("sandbox_kill: %v", k)
	}
	if _, failed := p.try("exec", id("command", "true")); !strings.Contains(failed, "ended") {
		t.Errorf("exec in a sandbox that has ended: %q", failed)
	}
}

// long has a command outlive its call, and reads all of a long output.
func long(t *testing.T, p *peer, id func(...any) map[string]any) {
	x := p.call("exec", id("command", "echo begun; until [ -e go ]; do sleep 0.05; done; seq 1 20000", "wait_seconds", 0))
	if x["state"] != "running" || x["exit_code"] != nil || x["hint"] == nil {
		t.Fatalf("a command that waits: %v", x)
	}
	if !slices.Contains(drain(p.progress), "running for 0s, 0 bytes of output") {
		t.Error("no progress at once")
	}
	p.call("file_write", id("path", "go", "content", ""))
	end := p.call("exec_poll", id("exec_id", x["exec_id"]))
	text := end["output"].(string)
	if end["exit_code"] != 0.0 || end["truncated"] != true || !strings.HasPrefix(text, "begun\n1\n") || !strings.HasSuffix(text, "\n20000\n") || len(text) > 33<<10 {
		t.Errorf("the end: %.100v, %d bytes", end, len(text))
	}
	var whole strings.Builder
	for offset := 0.0; offset < end["output_bytes"].(float64); {
		part := p.call("exec_poll", id("exec_id", x["exec_id"], "offset", offset))
		if part["offset"] != offset || part["next_offset"].(float64) <= offset {
			t.Fatalf("the part at %v: %v, %v", offset, part["offset"], part["next_offset"])
		}
		whole.WriteString(part["output"].(string))
		offset = part["next_offset"].(float64)
	}
	if got := strings.Fields(whole.String()); len(got) != 20001 || got[20000] != "20000" {
		t.Errorf("the parts have %d lines", len(got))
	}
}

func drain(c chan string) (all []string) {
	for {
		select {
		case s := <-c:
			all = append(all, s)
		default:
			return all
		}
	}
}

// holdsNoCall: a call returns within its time and reports progress until then; the command continues.
func holdsNoCall(t *testing.T, w *world.World) {
	p := stdio(t, w.Client, 400*time.Millisecond, options{version: handshake})
	box := p.create(nil)
	began := time.Now()
	x := p.call("exec", map[string]any{"sandbox_id": box, "command": "sleep 3600"})
	if took := time.Since(began); x["state"] != "running" || took > patience.Of(10*time.Second) {
		t.Errorf("a command of an hour: %v after %s", x["state"], took)
	}
	if said := drain(p.progress); len(said) < 2 {
		t.Errorf("the call reported %q", said)
	}
}

// tasks has a program written, and an agent work on a repository that it does not find.
func tasks(t *testing.T, w *world.World) {
	p := remote(t, w, w.Key("alice", ""), options{version: stateless})
	out := p.call("run", map[string]any{"request": "print the first 5 prime numbers"})
	for out["state"] != "done" {
		out = p.call("task_show", map[string]any{"task_id": out["task_id"]})
	}
	if out["outcome"] != "verified" || out["stdout"] != "2, 3, 5, 7, 11\n" || len(out["program"].([]any)) == 0 {
		t.Errorf("run: %v", out)
	}
	if _, failed := p.try("task_start", map[string]any{"repository": "/etc", "request": "fix it"}); failed == "" {
		t.Error("a user starts a task on a directory of the daemon's machine")
	}
	if _, failed := p.try("task_show", map[string]any{"task_id": "../info"}); !strings.HasPrefix(failed, "invalid") {
		t.Errorf("a path for an id: %q", failed)
	}
}

// approvals: a connection that waits for a person is asked about in a dialog of the client, in both eras; a client without one is
// told the command.
func approvals(t *testing.T, w *world.World) {
	fetch := func(p *peer, box string) map[string]any {
		return p.call("exec", map[string]any{"sandbox_id": box, "wait_seconds": 25, "command": "python3 -c 'import socket; s = socket.create_connection((\"127.0.0.1\", 3128)); " +
			"s.sendall(b\"CONNECT example.org:81 HTTP/1.1\\r\\nHost: example.org:81\\r\\n\\r\\n\"); print(s.recv(100))'"})
	}
	for _, version := range []string{handshake, stateless} {
		for _, decision := range []string{"deny", "decline", "allow always"} {
			t.Run(version+" "+decision, func(t *testing.T) {
				t.Parallel()
				asked := make(chan string, 10)
				p := stdio(t, w.Client, time.Minute, options{version: version, elicit: func(r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked <- r.Params.Message
					if decision == "decline" {
						return &mcp.ElicitResult{Action: "decline"}, nil
					}
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"decision": decision}}, nil
				}})
				box := p.create(map[string]any{"egress": []string{"ask"}})
				x := fetch(p, box)
				if message := <-asked; !strings.Contains(message, `"example.org", port 81`) || !strings.Contains(message, box) || len(asked) > 0 {
					t.Errorf("the question is %q", message)
				}
				// Nothing is at that name: what was allowed fails in another way than what was denied.
				if got := x["output"].(string); x["state"] != "exited" || strings.Contains(got, "403") != (decision != "allow always") {
					t.Errorf("the program got %v", x)
				}
				s := world.Must(w.Client.Sandboxes.Get(t.Context(), box))(t)
				defer s.Close()
				if row := world.Must(s.Info(t.Context()))(t); (len(row.EgressPolicy.Rules) > 0) != (decision == "allow always") {
					t.Errorf("the rules are %+v", row.EgressPolicy.Rules)
				}
			})
		}
	}
	t.Run("by command", func(t *testing.T) {
		t.Parallel()
		p := remote(t, w, w.Key("alice", ""), options{version: handshake})
		box := p.create(map[string]any{"egress": []string{"ask"}})
		x := fetch(p, box)
		asks, _ := x["waiting_connections"].([]any)
		if x["state"] != "running" || len(asks) != 1 {
			t.Fatalf("a connection that waits: %v", x)
		}
		ask := asks[0].(map[string]any)
		if ask["host"] != "example.org" || ask["answer"] != fmt.Sprintf("hortus egress answer %s allow", ask["id"]) {
			t.Errorf("the question is %v", ask)
		}
		world.OK(t, w.Client.Egress.Answer(t.Context(), ask["id"].(string), api.AnswerEgressAsk{Action: api.EgressDeny}))
		if end := p.call("exec_poll", map[string]any{"sandbox_id": box, "exec_id": x["exec_id"]}); !strings.Contains(end["output"].(string), "403") {
			t.Errorf("after the denial: %v", end)
		}
	})
}
