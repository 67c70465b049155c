package wasm_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/envd"
	"hortus.dev/test/patience"
)

// ask sends a request to the code interpreter, and returns the status and what was answered.
func (b *box) ask(method, path, body string) (int, string) {
	b.t.Helper()
	conn, err := b.machine.Link().Open(b.t.Context())
	if err == nil {
		conn, err = envd.OpenPort(b.t.Context(), conn, envd.PortPath(envd.CodePort), nil)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience.Of(60 * time.Second)))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: sandbox\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Errorf("the answer to %s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(text)
}

// code runs JavaScript and returns the events after the first one.
func (b *box) code(script string) []map[string]any {
	b.t.Helper()
	body, _ := json.Marshal(map[string]any{"code": script, "language": "javascript"})
	status, text := b.ask("POST", "/execute", string(body))
	var events []map[string]any
	for line := range strings.Lines(text) {
		e := map[string]any{}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.t.Errorf("event %.100q: %v", line, err)
		}
		events = append(events, e)
	}
	if status != http.StatusOK || len(events) == 0 || events[0]["type"] != "number_of_executions" {
		b.t.Fatalf("%s: status %d, %.300q", script, status, text)
	}
	return events[1:]
}

func TestCode(t *testing.T) {
	b := start(t, nil)
	for _, c := range []struct{ name, code, want string }{
		{"a value", "[1, {a: 2}]", `[{"is_main_result":true,"json":[1,{"a":2}],"text":"[1,{\"a\":2}]","type":"result"}]`},
		{"no value", "let a = 1", `[]`},
		{"a promise", "await Promise.resolve('later')", `[{"is_main_result":true,"text":"later","type":"result"}]`},
		{"what is printed", "console.log('ä', {a: 1})", `[{"text":"ä {\"a\":1}\n","type":"stdout"}]`},
		{"what is printed as an error", "console.error('e', [1])", `[{"text":"e [1]\n","type":"stderr"}]`},
		{"an error", "let x = 1\nnull.y", `[{"name":"TypeError","traceback":"TypeError: cannot read property 'y' of null\n    at \u003ceval\u003e (\u003cevalScript\u003e:2:1)","type":"error","value":"cannot read property 'y' of null"}]`},
		{"a circle", "const c = {}; c.c = c; c", `[{"is_main_result":true,"text":"[object Object]","type":"result"}]`},
		{"an exit", "std.exit(3)", `[{"name":"ProgramEnded","traceback":"ProgramEnded: the program ended with exit code 3","type":"error","value":"exit code 3"}]`},
		{"nothing remains", "typeof a", `[{"is_main_result":true,"text":"undefined","type":"result"}]`},
	} {
		got, err := json.Marshal(append([]map[string]any{}, b.code(c.code)...))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.name, got, err, c.want)
		}
	}
	b.code("std.open('/workspace/kept', 'w').puts('file')")
	if e := b.code("std.loadFile('/workspace/kept')"); len(e) != 1 || e[0]["text"] != "file" {
		t.Errorf("what the code before wrote: %v", e)
	}
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/execute", `{"code":"1","context_id":"javascript"}`, "no contexts"},
		{"POST", "/contexts", `{}`, "no contexts"},
		{"POST", "/execute", `{"code":"1","language":"ruby"}`, "use python or javascript"},
		{"POST", "/execute", `{"code":`, "not valid JSON"},
		{"POST", "/execute", `{"code":"1"}`, "hortus wasm install python"},
	} {
		if status, text := b.ask(c.method, c.path, c.body); status != http.StatusBadRequest || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: status %d, %q; want %q", c.method, c.path, status, text, c.want)
		}
	}
	b.js(0, "", "for (const n of os.readdir('/tmp')[0]) if (n.startsWith('.code')) print(n)")
}

// TestCodeLies writes what is not an event to the file of events, which the code can find. The control is TestCode.
func TestCodeLies(t *testing.T) {
	b := start(t, nil)
	const file = "const dir = '/tmp/' + os.readdir('/tmp')[0].find((n) => n.startsWith('.code')); const f = std.open(dir + '/events', 'w'); "
	for name, c := range map[string]struct {
		code string
		most int
	}{
		"no JSON":               {"f.puts('{]\\n\\n[1]\\n\"x\"\\nnull\\n')", 0},
		"unknown events":        {"f.puts('{\"type\":\"stdout\",\"text\":\"forged\"}\\n{\"type\":\"number_of_executions\"}\\n{}\\n')", 0},
		"a line without an end": {"f.puts('{\"type\":\"result\",\"text\":\"' + 'x'.repeat(20 << 20))", 0},
		"a directory":           {"f.close(); os.remove(dir + '/events'); os.mkdir(dir + '/events'); std.exit(0)", 0},
		"no directory":          {"f.close(); os.remove(dir + '/events'); os.remove(dir + '/code'); os.remove(dir); std.exit(0)", 0},
	} {
		events := b.code(file + c.code + "; f.close(); std.exit(0)")
		if len(events) > c.most {
			t.Errorf("%s: %.300v", name, events)
		}
	}
	if e := b.code("1 + 1"); len(e) != 1 || e[0]["text"] != "2" {
		t.Errorf("afterwards: %v", e)
	}
}

// TestCodeLeaves ends the code of a client that leaves.
func TestCodeLeaves(t *testing.T) {
	b := start(t, nil)
	conn, err := b.machine.Link().Open(t.Context())
	if err == nil {
		conn, err = envd.OpenPort(t.Context(), conn, envd.PortPath(envd.CodePort), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(map[string]any{"language": "javascript", "code": "print('begun'); for (;;) { const f = std.open('/workspace/beat', 'w'); f.puts(String(os.now())); f.close(); os.sleep(20) }"})
	fmt.Fprintf(conn, "POST /execute HTTP/1.1\r\nHost: sandbox\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(line, []byte("begun")) {
			break
		}
	}
	conn.Close()
	beat := func() any { return b.code("os.sleep(100); std.loadFile('/workspace/beat')")[0]["text"] }
	for deadline, last := time.Now().Add(patience.Of(60*time.Second)), beat(); ; {
		now := beat()
		if now == last {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the code goes on without its client")
		}
		last = now
	}
}
