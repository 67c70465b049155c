package outside

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"hortus.dev/test/patience"
	"hortus.dev/test/tier"
)

// TestHostFiles: every path is one of the sandbox, however it is written.
func TestHostFiles(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	ways(t, testHostFiles)
}

func testHostFiles(t *testing.T, sb, url string) {
	p := connect(t, url)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("of the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	inside(t, sb, "ln -s "+secret+" link; ln -s "+dir+" dir")
	for _, uri := range []string{
		"file://" + secret,
		"file:///workspace/../.." + secret,
		"file:///workspace/%2e%2e/%2e%2e" + secret,
		"file:///proc/1/root" + secret,
		"file:///proc/self/cwd" + secret,
		"file:///workspace/link",
		"file:///workspace/dir/secret",
	} {
		for method, in := range map[string]object{
			"fs/readFile":     {"path": uri},
			"fs/canonicalize": {"path": uri},
			"fs/open":         {"path": uri, "handleId": "h"},
			"fs/copy":         {"sourcePath": uri, "destinationPath": "file:///workspace/copied", "recursive": true},
		} {
			m := p.answer(p.ask(method, in))
			if m.Error == nil && !(method == "fs/copy" && strings.HasSuffix(uri, "/link")) { // a link is copied as one
				t.Errorf("%s of %s: %s", method, uri, m.Result)
			}
		}
	}
	for _, uri := range []string{"", "/etc/passwd", "workspace", "file:workspace", "file:relative", "file://host/etc/passwd", "http://127.0.0.1/",
		"file:///a%00b", "file:///etc/passwd?x", "file:///etc/passwd#x", "file://u@/etc/passwd", "file:///%zz", "file:///" + strings.Repeat("a", 5000)} {
		p.refused(-32602, "URI", "fs/readFile", object{"path": uri})
		p.refused(-32602, "URI", "process/start", command("x", sh("true"), object{"cwd": uri}))
	}
	m := p.answer(p.ask("process/start", command("x", sh("cat secret"), object{"cwd": "file://" + dir})))
	if m.Error == nil {
		t.Errorf("a command started in a directory of the host: %s", m.Result)
	}
	// The controls: the same words, where the sandbox has such a file.
	inside(t, sb, "echo of the sandbox > own; ln -sf /workspace/own link")
	for _, uri := range []string{"file:///workspace/own", "file:///workspace/link", "file:///etc/../workspace/%2e%2e/workspace/own"} {
		if got := p.ok("fs/readFile", object{"path": uri})["dataBase64"]; got != "b2YgdGhlIHNhbmRib3gK" {
			t.Errorf("%s: %v", uri, got)
		}
	}
	if b, err := os.ReadFile(secret); err != nil || string(b) != "of the host" {
		t.Errorf("the file of the host: %q, %v", b, err)
	}
}

// TestWrongClients: who does not know the path, a page in a browser, and who begins wrongly.
func TestWrongClients(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	sb := sandbox(t, "container")
	s := serve(t, sb)
	status := func(path string, header http.Header) int {
		t.Helper()
		u, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		if path != "" {
			u.Path = path
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
		defer cancel()
		c, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{HTTPHeader: header})
		if err == nil {
			c.CloseNow()
		}
		if resp == nil {
			t.Fatal(err)
		}
		return resp.StatusCode
	}
	token := s.url[strings.LastIndexByte(s.url, '/')+1:]
	if len(token) < 26 {
		t.Errorf("the path has only %q", token)
	}
	for _, c := range []struct {
		path   string
		header http.Header
		want   int
	}{
		{"", nil, 101},
		{"/", nil, 404},
		{"/" + token[1:], nil, 404},
		{"/" + token + "/", nil, 404},
		{"/x/" + token, nil, 404},
		{"/" + strings.ToLower(token), nil, 404},
		{"", http.Header{"Origin": {"http://example.org"}}, 403},
		{"", http.Header{"Origin": {"http://" + strings.TrimPrefix(s.url, "ws://")}}, 403},
		{"", nil, 101},
	} {
		if got := status(c.path, c.header); got != c.want {
			t.Errorf("%q, %v: status %d, want %d", c.path, c.header, got, c.want)
		}
	}

	p := dial(t, s.url)
	p.refused(-32600, "initialize", "fs/readFile", object{"path": "file:///etc/passwd"})
	p.refused(-32600, "unknown session", "initialize", object{"clientName": "test", "resumeSessionId": "other"})
	p.refused(-32602, "parameters", "initialize", object{"clientName": 3})
	p.ok("initialize", object{"clientName": "test"})
	p.refused(-32600, "already", "initialize", object{"clientName": "test"})
	p.refused(-32601, "unknown method", "http/request", object{"method": "GET", "url": "http://127.0.0.1/"})
	p.refused(-32602, "parameters", "fs/readFile", []int{1})
	for _, id := range []any{object{}, []int{1}, strings.Repeat("x", 1000)} {
		p.send(object{"id": id, "method": "fs/readFile", "params": object{"path": "file:///"}})
	}
	p.send(object{"method": "no/such", "params": object{}})
	p.send(object{"id": 77, "result": object{}})
	p.await("the error of wrong messages", func() bool { return p.answers[-1].Error != nil })
	p.ok("environment/info", nil)

	// Restrictions that would not be enforced are refused.
	confined := object{"permissions": object{"type": "managed"}}
	p.refused(-32600, "danger-full-access", "process/start", command("x", sh("true"), object{"sandbox": confined}))
	p.refused(-32600, "danger-full-access", "process/start", command("x", sh("true"), object{"enforceManagedNetwork": true}))
	p.refused(-32600, "danger-full-access", "process/start", command("x", sh("true"), object{"networkProxy": object{"port": 1}}))
	p.refused(-32600, "arg0", "process/start", command("x", sh("true"), object{"arg0": "other"}))
	for _, method := range []string{"fs/readFile", "fs/writeFile", "fs/getMetadata", "fs/readDirectory", "fs/remove", "fs/createDirectory", "fs/canonicalize"} {
		p.refused(-32600, "danger-full-access", method, object{"path": "file:///workspace/x", "dataBase64": "", "sandbox": confined})
	}
	p.start("x", sh("true"), object{"arg0": "sh"})
	p.ended("x")
}

// TestBounds: a peer that wants too much of everything.
func TestBounds(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	sb := sandbox(t, "container")
	s := serve(t, sb)
	p := connect(t, s.url)

	// Numbers that make no sense.
	p.start("short", sh("echo one; echo two >&2"), nil)
	p.ended("short")
	for _, in := range []object{
		{"afterSeq": uint64(math.MaxUint64)}, {"afterSeq": uint64(1) << 40, "waitMs": int64(math.MaxInt64)},
		{"maxBytes": 0}, {"maxBytes": -5}, {"maxBytes": math.MaxInt64}, {"waitMs": -1},
	} {
		in["processId"] = "short"
		if got := p.ok("process/read", in); got["closed"] != true {
			t.Errorf("read %v: %v", in, got)
		}
	}
	p.refused(-32602, "parameters", "process/read", object{"processId": "short", "afterSeq": -1})
	p.refused(-32602, "parameters", "process/read", object{"processId": "short", "afterSeq": 1.5})
	p.refused(-32600, "unknown process", "process/read", object{"processId": "nobody"})
	p.refused(-32602, "processId", "process/start", command(strings.Repeat("x", 300), sh("true"), nil))
	p.refused(-32602, "processId", "process/start", command("", sh("true"), nil))

	// Output: all of it is sent, in order; a part of it is kept.
	const flood = 8 << 20
	p.start("flood", sh(fmt.Sprintf("head -c %d /dev/zero", flood)), nil)
	if out, code := p.ended("flood"); len(out["stdout"]) != flood || code != 0 {
		t.Errorf("%d bytes came, exit %d", len(out["stdout"]), code)
	}
	kept, after := 0, 0.0
	for {
		got := p.ok("process/read", object{"processId": "flood", "afterSeq": after})
		chunks := got["chunks"].([]any)
		if len(chunks) == 0 {
			break
		}
		for _, c := range chunks {
			kept += len(c.(object)["chunk"].(string)) / 4 * 3
		}
		after = got["nextSeq"].(float64) - 1
	}
	if kept == 0 || kept > 260<<10 {
		t.Errorf("%d bytes were kept", kept)
	}

	// Input that nobody reads.
	p.start("deaf", sh("echo ready; exec sleep 1000"), object{"pipeStdin": true})
	p.said("deaf", "ready")
	sent, refused := 0, false
	for range 200 {
		m := p.answer(p.ask("process/write", object{"processId": "deaf", "chunk": make([]byte, 64<<10), "writeId": "w"}))
		if m.Error != nil {
			refused = strings.Contains(m.Error.Message, "has not read")
			break
		}
		sent += 64 << 10
	}
	if !refused || sent < 256<<10 {
		t.Errorf("%d bytes were accepted, refused %v", sent, refused)
	}
	if got := p.ok("process/terminate", object{"processId": "deaf"}); got["running"] != true {
		t.Errorf("terminate: %v", got)
	}
	p.ended("deaf")

	// Processes.
	const most = 64
	for i := range most {
		p.start(fmt.Sprint("p", i), []string{"sleep", "1000"}, nil)
	}
	p.refused(-32600, "maximum", "process/start", command("more", sh("true"), nil))
	p.ok("process/terminate", object{"processId": "p0"})
	p.ended("p0")
	p.start("more", sh("true"), nil)
	p.ended("more")

	// Files.
	inside(t, sb, "truncate -s 17M big; truncate -s 16M fits")
	p.refused(-32600, "maximum", "fs/readFile", object{"path": "file:///workspace/big"})
	if got := len(p.ok("fs/readFile", object{"path": "file:///workspace/fits"})["dataBase64"].(string)); got != (16<<20+2)/3*4 {
		t.Errorf("the largest file has %d characters", got)
	}
	for i := range 32 {
		p.ok("fs/open", object{"path": "file:///workspace/big", "handleId": fmt.Sprint(i)})
	}
	p.refused(-32600, "maximum", "fs/open", object{"path": "file:///workspace/big", "handleId": "more"})
	p.ok("fs/close", object{"handleId": "0"})
	p.ok("fs/open", object{"path": "file:///workspace/big", "handleId": "more"})
	p.refused(-32602, "block", "fs/readBlock", object{"handleId": "more", "offset": 0, "len": 2 << 20})
	p.refused(-32602, "block", "fs/readBlock", object{"handleId": "more", "offset": -1, "len": 1})
	p.ok("fs/readBlock", object{"handleId": "more", "offset": 0, "len": 1 << 20})

	// Requests that wait.
	for range 128 {
		p.ask("process/read", object{"processId": "p1", "waitMs": 1 << 40})
	}
	p.refused(-32600, "maximum", "process/read", object{"processId": "p1", "waitMs": 1})
	p.ok("fs/getMetadata", object{"path": "file:///workspace"}) // others are served

	// Messages. The longest that can be sent is taken, and a longer one ends the connection.
	p.ok("fs/writeFile", object{"path": "file:///workspace/fits", "dataBase64": make([]byte, 16<<20)})
	p.refused(-32600, "maximum", "fs/writeFile", object{"path": "file:///workspace/fits", "dataBase64": make([]byte, 16<<20+1)})
	p.send(object{"id": 1 << 20, "method": "fs/writeFile", "params": object{"path": "file:///workspace/fits", "dataBase64": make([]byte, 20<<20)}})
	<-p.done
	gone(t, sb, "sleep 1000")

	// Connections.
	for range 4 {
		connect(t, s.url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
	defer cancel()
	if _, resp, err := websocket.Dial(ctx, s.url, nil); err == nil || resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the fifth connection: %v", err)
	}
}

// TestDirect: the daemon serves the protocol to those who have a key, and within bounds of its
// own.
func TestDirect(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	sb := sandbox(t, "container")
	other := hortus(t, "key", "create", "--account", "other", "--json")
	var foreign struct{ Secret string }
	if err := json.Unmarshal([]byte(other), &foreign); err != nil || foreign.Secret == "" {
		t.Fatalf("%v: %s", err, other)
	}
	try := func(sb string, header http.Header) (int, *websocket.Conn) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience.Of(10*time.Second))
		defer cancel()
		c, resp, err := websocket.Dial(ctx, direct(sb), &websocket.DialOptions{HTTPHeader: header})
		if resp == nil {
			t.Fatal(err)
		}
		return resp.StatusCode, c
	}
	for _, c := range []struct {
		sandbox string
		header  http.Header
		want    int
	}{
		{sb, nil, 401},
		{sb, http.Header{"Authorization": {"Bearer e2b_" + strings.Repeat("0", 40)}}, 401},
		{sb, http.Header{"Authorization": {"Bearer " + foreign.Secret}}, 404},
		{"inosuchsandbox0000000", http.Header{"Authorization": {"Bearer " + key}}, 404},
		{sb, http.Header{"Authorization": {"Bearer " + key}, "Origin": {"http://example.org"}}, 403},
		{sb, http.Header{"Authorization": {"Bearer " + key}}, 101},
		{sb, http.Header{"X-Api-Key": {key}}, 101},
	} {
		got, conn := try(c.sandbox, c.header)
		if conn != nil {
			conn.CloseNow()
		}
		if got != c.want {
			t.Errorf("%s, %v: status %d, want %d", c.sandbox, c.header, got, c.want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http"+strings.TrimPrefix(direct(sb), "ws"), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without an upgrade: %s", resp.Status)
	}

	p := connect(t, direct(sb))
	p.ok("fs/writeFile", object{"path": "file:///workspace/f", "dataBase64": make([]byte, 4<<20)})
	p.refused(-32600, "maximum", "fs/writeFile", object{"path": "file:///workspace/f", "dataBase64": make([]byte, 4<<20+1)})
	p.start("long", sh("echo ready; sleep 4411"), object{"tty": true})
	p.said("long", "ready")
	huge, err := json.Marshal(object{"id": 1 << 20, "method": "fs/writeFile", "params": object{"path": "file:///workspace/f", "dataBase64": make([]byte, 8<<20)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.c.Write(t.Context(), websocket.MessageText, huge); err != nil {
		t.Logf("the connection ended before all of it was sent: %v", err)
	}
	<-p.done
	gone(t, sb, "sleep 4411")

	// An account has so many sessions, and others do not count.
	cmd := exec.Command(binary, "--host", address, "sandbox", "create", "--isolation", "container")
	cmd.Env = append([]string{"HORTUS_API_KEY=" + foreign.Secret}, environ...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.TrimSpace(string(out))
	t.Cleanup(func() { hortus(t, "sandbox", "kill", theirs) })
	header := http.Header{"Authorization": {"Bearer " + foreign.Secret}}
	var open []*websocket.Conn
	for range 8 {
		status, c := try(theirs, header)
		if status != http.StatusSwitchingProtocols {
			t.Fatalf("session %d: status %d", len(open), status)
		}
		defer c.CloseNow()
		open = append(open, c)
	}
	if status, _ := try(theirs, header); status != http.StatusTooManyRequests {
		t.Errorf("one session too many: status %d", status)
	}
	connect(t, direct(sb)).ok("environment/info", nil)
	open[0].CloseNow()
	late := time.Now().Add(patience.Of(30 * time.Second))
	for {
		status, c := try(theirs, header)
		if c != nil {
			c.CloseNow()
			break
		}
		if time.Now().After(late) {
			t.Fatalf("after one left: status %d", status)
		}
	}

	// The sandbox's end is that of its sessions.
	short := hortus(t, "sandbox", "create", "--isolation", "container")
	p = connect(t, direct(short))
	p.start("long", sh("echo ready; sleep 4422"), nil)
	p.said("long", "ready")
	hortus(t, "sandbox", "kill", short)
	<-p.done
}

// gone waits until a sandbox has no process with a text in its command line.
func gone(t *testing.T, sb, text string) {
	t.Helper()
	late := time.Now().Add(patience.Of(30 * time.Second))
	for {
		left := inside(t, sb, "ps ax -o args= | grep -F '"+text+"' | grep -v grep || true")
		if left == "" {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("processes are left:\n%s", left)
		}
	}
}

// TestCut: what a session started ends with its connection, and with the server.
func TestCut(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	sb := sandbox(t, "container")
	s := serve(t, sb)
	start := func(p *peer, text string) {
		t.Helper()
		p.start("pipe", sh("echo ready; exec sleep "+text+"1"), object{"pipeStdin": true})
		p.start("tty", sh("trap '' HUP INT TERM; echo ready; sleep "+text+"2; :"), object{"tty": true})
		p.said("pipe", "ready")
		p.said("tty", "ready")
	}
	first, second := connect(t, s.url), connect(t, s.url)
	start(first, "3311")
	start(second, "3322")
	first.cut()
	gone(t, sb, "sleep 3311")
	if got := inside(t, sb, "ps ax -o args= | grep -c '^sleep 3322'"); got != "2" {
		t.Errorf("of the other session %s commands run", got)
	}
	second.ok("environment/info", nil)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	<-second.done
	if got := inside(t, sb, "ps ax -o args= | grep '^sleep 33' || true"); got != "" {
		t.Errorf("after the server's end there is %q", got)
	}
}

// TestSandboxEnds: the server ends with its sandbox, and says so.
func TestSandboxEnds(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	can(t, "container")
	sb := hortus(t, "sandbox", "create", "--isolation", "container")
	s := serve(t, sb)
	p := connect(t, s.url)
	p.start("long", []string{"sleep", "1000"}, nil)
	hortus(t, "sandbox", "kill", sb)
	err := s.cmd.Wait()
	s.once.Do(func() {})
	if err == nil || !strings.Contains(s.stderr.String(), "sandbox "+sb+" is ended (killed)") {
		t.Errorf("%v: %s", err, s.stderr)
	}
	<-p.done
	if out, err := output("sandbox", "codex", sb); err == nil || !strings.Contains(err.Error(), "is ended (killed)") {
		t.Errorf("a server of a dead sandbox: %s, %v", out, err)
	}
}

// TestStdio serves on the standard streams of a process.
func TestStdio(t *testing.T) {
	t.Parallel()
	tier.AnyUser(t)
	sb := sandbox(t, "container")
	run := func(in string) (string, string, error) {
		cmd := exec.Command(binary, "sandbox", "codex", "--stdio", sb)
		cmd.Env = environ
		var out, errs bytes.Buffer
		stdin, err := cmd.StdinPipe()
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(stdin, in)
		stdin.Close()
		err = cmd.Wait()
		return out.String(), errs.String(), err
	}
	hello := `{"id":1,"method":"initialize","params":{"clientName":"t"}}` + "\n"
	out, errs, err := run(hello + `{"method":"initialized"}` + "\n\n" + `{"id":2,"method":"no/such"}` + "\n")
	if err != nil || strings.Count(out, "\n") != 2 || !strings.Contains(out, `"cwd":"file:///workspace"`) || !strings.Contains(out, `"id":2,"error"`) {
		t.Errorf("%v: %s%s", err, out, errs)
	}
	for _, in := range []string{"{", `{"id":1,"method":"initialize"`, "not json\n", hello + strings.Repeat("x", 25<<20) + "\n"} {
		out, errs, err := run(in)
		if complete := strings.HasSuffix(in, "\n"); complete && err == nil || !complete && err != nil {
			t.Errorf("%.40q: %v: %s%s", in, err, out, errs)
		}
	}
	if _, err := output("sandbox", "codex", "--stdio", "--json", sb); err == nil {
		t.Error("--stdio and --json were taken together")
	}
}
