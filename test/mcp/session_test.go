package mcp

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"hortus.dev/api"
	"hortus.dev/test/gittest"
	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
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
		"sessions": sessions, "hold": holdsNoCall, "files": largeFiles, "tasks": tasks, "repository": repositoryTask, "approvals": approvals,
		"account": anotherAccount, "output": outputIsData, "calls": callsOfOneClient, "long": longCalls,
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

// holdsNoCall: a call returns within its time and reports progress until then; the command continues, and its result is there later.
func holdsNoCall(t *testing.T, w *world.World) {
	p := stdio(t, w.Client, 400*time.Millisecond, options{version: handshake})
	box := p.create(nil)
	began := time.Now()
	x := p.call("exec", map[string]any{"sandbox_id": box, "command": "until [ -e go ]; do sleep 0.05; done; echo late; exit 4"})
	if took := time.Since(began); x["state"] != "running" || took > patience.Of(10*time.Second) {
		t.Errorf("a command that waits: %v after %s", x["state"], took)
	}
	if said := drain(p.progress); len(said) < 2 {
		t.Errorf("the call reported %q", said)
	}
	poll := map[string]any{"sandbox_id": box, "exec_id": x["exec_id"]}
	if x = p.call("exec_poll", poll); x["state"] != "running" || x["exit_code"] != nil {
		t.Errorf("before its end: %v", x)
	}
	p.call("file_write", map[string]any{"sandbox_id": box, "path": "go", "content": ""})
	for x["state"] == "running" {
		x = p.call("exec_poll", poll)
	}
	if x["output"] != "late\n" || x["exit_code"] != 4.0 {
		t.Errorf("its end: %v", x)
	}
}

// TestNinetySeconds: with the times of a real server, a command of 90 seconds has a handle within 30, and its result later.
func TestNinetySeconds(t *testing.T) {
	tier.Soak(t)
	t.Parallel()
	cfg := world.Config{}
	cfg.Usual.Isolation = "container"
	w := world.Open(t, cfg)
	w.Isolates(t, "container")
	for _, version := range []string{handshake, stateless} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := remote(t, w, w.Key("alice", ""), options{version: version})
			box := p.create(nil)
			began := time.Now()
			x := p.call("exec", map[string]any{"sandbox_id": box, "command": "sleep 90; echo late"})
			if took := time.Since(began); x["state"] != "running" || took > 30*time.Second {
				t.Errorf("%v after %s", x["state"], took)
			}
			for x["state"] == "running" {
				asked := time.Now()
				x = p.call("exec_poll", map[string]any{"sandbox_id": box, "exec_id": x["exec_id"]})
				if took := time.Since(asked); took > 30*time.Second {
					t.Errorf("exec_poll took %s", took)
				}
			}
			if took := time.Since(began); x["output"] != "late\n" || x["exit_code"] != 0.0 || took < 90*time.Second {
				t.Errorf("%v after %s", x, took)
			}
		})
	}
}

// largeFiles carries a file in and out in parts. In T2 it has 64 MiB.
func largeFiles(t *testing.T, w *world.World) {
	p := remote(t, w, w.Key("alice", ""), options{version: stateless})
	box := p.create(nil)
	want := make([]byte, tier.Count(3, 64)<<20+12345)
	rand.NewChaCha8([32]byte{1}).Read(want)
	args := func(more map[string]any) map[string]any {
		more["sandbox_id"], more["path"] = box, "new/large"
		return more
	}
	for at := 0; at < len(want); {
		part := want[at:min(at+1<<20, len(want))]
		out := p.call("file_write", args(map[string]any{"content": base64.StdEncoding.EncodeToString(part), "encoding": "base64", "offset": at}))
		if at += len(part); out["size"] != float64(at) {
			t.Fatalf("after %d bytes: %v", at, out)
		}
	}
	// A part whose answer was lost is not written twice, and the error says where to go on.
	if _, failed := p.try("file_write", args(map[string]any{"content": "x", "offset": 1 << 20})); !strings.HasPrefix(failed, "conflict: ") || !strings.Contains(failed, fmt.Sprint(len(want))) {
		t.Errorf("a part that is there: %q", failed)
	}
	if _, failed := p.try("file_write", map[string]any{"sandbox_id": box, "path": "nothing", "content": "x", "offset": 1}); !strings.HasPrefix(failed, "not_found: ") {
		t.Errorf("a part of no file: %q", failed)
	}
	p.call("exec", map[string]any{"sandbox_id": box, "command": "ln -s new/large link"})
	var got []byte
	for {
		part := p.call("file_read", map[string]any{"sandbox_id": box, "path": "link", "offset": len(got), "max_bytes": 1 << 20})
		b, err := base64.StdEncoding.DecodeString(part["content"].(string))
		if err != nil || part["encoding"] != "base64" || part["size"] != float64(len(want)) {
			t.Fatalf("the part at %d: %v, %v", len(got), part["size"], err)
		}
		got = append(got, b...)
		if part["next_offset"] == nil {
			break
		}
		if part["next_offset"] != float64(len(got)) {
			t.Fatalf("after %d bytes: %v", len(got), part["next_offset"])
		}
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %d are right", len(got), len(want))
	}
	if part := p.call("file_read", args(map[string]any{"offset": len(want)})); part["content"] != "" || part["next_offset"] != nil {
		t.Errorf("the part after the end: %v", part)
	}
	// Text is cut between characters, whatever its parts are.
	p.call("file_write", map[string]any{"sandbox_id": box, "path": "text", "content": strings.Repeat("ä€", 100)})
	for at, text := 0.0, ""; ; {
		part := p.call("file_read", map[string]any{"sandbox_id": box, "path": "text", "offset": at, "max_bytes": 7})
		text += part["content"].(string)
		next, more := part["next_offset"].(float64)
		if !more {
			if text != strings.Repeat("ä€", 100) {
				t.Errorf("the text is %q", text)
			}
			break
		}
		at = next
	}
}

// repositoryTask has the built-in model repair a repository, from the start of the task to its diff.
func repositoryTask(t *testing.T, w *world.World) {
	dir := gittest.NewCheckout(t, map[string]string{
		"calc.py":      "def add(a, b):\n    return a - b\n",
		"test_calc.py": "import unittest\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n",
	})
	p := stdio(t, w.Client, 2*time.Second, options{version: stateless})
	out := p.call("task_start", map[string]any{"repository": dir, "request": "Fix the failing test", "model": "offline"})
	if id, _ := out["task_id"].(string); id == "" || out["state"] == "done" {
		t.Fatalf("task_start: %v", out)
	}
	for out["state"] != "done" {
		out = p.call("task_show", map[string]any{"task_id": out["task_id"]})
	}
	gate, _ := out["gate"].(map[string]any)
	if out["outcome"] != "verified" || gate["passed"] != true || gate["exit_code"] != 0.0 || gate["tests"] != "1 passed, 0 failed, 0 skipped" {
		t.Errorf("the task: %v", out)
	}
	if diff, _ := out["diff"].(string); !strings.Contains(diff, "-    return a - b\n+    return a + b\n") || !strings.Contains(fmt.Sprint(out["files"]), "calc.py") {
		t.Errorf("the change: %v\n%s", out["files"], diff)
	}
	if hint, _ := out["hint"].(string); !strings.Contains(hint, "hortus task apply "+out["task_id"].(string)) {
		t.Errorf("the hint: %q", hint)
	}
	if got := gittest.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("the repository itself has changed: %s", got)
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
