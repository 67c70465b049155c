//go:build linux

package interpreter

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// start serves a server on a port of the test's own and gives its address.
func start(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); newServer().serve(context.Background(), l) }()
	t.Cleanup(func() { l.Close(); <-done })
	return "http://" + l.Addr().String()
}

// ask sends a request and gives its status and body.
func ask(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// outcome is what an execution gave.
type outcome struct {
	stdout, stderr string
	results        []map[string]any
	err            map[string]any
	count          float64
}

// run runs code, in a context or language.
func run(t *testing.T, url string, in execution) (out outcome) {
	t.Helper()
	body, _ := json.Marshal(in)
	status, text := ask(t, "POST", url+"/execute", string(body))
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if !strings.HasPrefix(text, `{"type":"number_of_executions",`) {
		t.Errorf("%.200s: it does not begin with the number of the code", text)
	}
	for line := range strings.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch e["type"] {
		case "stdout":
			out.stdout += e["text"].(string)
		case "stderr":
			out.stderr += e["text"].(string)
		case "result":
			out.results = append(out.results, e)
		case "error":
			out.err = e
		case "number_of_executions":
			out.count = e["execution_count"].(float64)
		}
	}
	return out
}

// cell is a piece of code and what it has to give.
type cell struct {
	code, stdout, stderr string
	main                 string // text of the main result
	has                  map[string]any
	err, value           string // name and part of the value of the error
	env                  map[string]string
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	for language, cells := range map[string][]cell{
		"python": {
			{code: "x = 20\nx + 1", main: "21"},
			{code: "print('a', x); x *= 2; x", stdout: "a 20\n", main: "40"},
			{code: "x;"},
			{code: "x = 1"},
			{code: "import asyncio\nawait asyncio.sleep(0)\n[x, 2]", main: "[1, 2]", has: map[string]any{"json": []any{1.0, 2.0}}},
			{code: "async def f():\n    return 7\nawait f()", main: "7"},
			{code: "import sys, os\nprint('bad', file=sys.stderr); os.system('echo below')", stderr: "bad\n", stdout: "below\n", main: "0"},
			{code: "import os\nos.environ['A'] + os.environ.get('HOME', '')[:1]", env: map[string]string{"A": "b"}, main: "'b/'"},
			{code: "os.environ.get('A')"},
			{code: "def f():\n    return 1 / 0\nf()", err: "ZeroDivisionError", value: "division by zero"},
			{code: "raise ValueError('ä\\x00ö')", err: "ValueError", value: "ä"},
			{code: "x =", err: "SyntaxError", value: "invalid syntax"},
			{code: "class A:\n    def _repr_html_(self): return '<b>'\nA()", main: "<__main__.A object at", has: map[string]any{"html": "<b>"}},
			{code: "from IPython.display import HTML, display\ndisplay(HTML('<i>'))\n5", main: "5", has: map[string]any{"html": "<i>"}},
			{code: "class B:\n    def _repr_png_(self): return b'p'\nB()", main: "<__main__.B object", has: map[string]any{"png": "cA=="}},
			{code: "!echo shell\n%matplotlib inline\nx", stdout: "shell\n", main: "1"},
			{code: "import sys; sys.exit(3)", err: "SystemExit", value: "3"},
			{code: "input('name?')", stdout: "name?", err: "EOFError"},
			{code: "print('ü' * 100000, end='')", stdout: strings.Repeat("ü", 100000)},
			{code: "import dataclasses\n@dataclasses.dataclass\nclass P:\n    a: int\nP(2)", main: "P(a=2)"},
			{code: "import pickle\npickle.loads(pickle.dumps(P(3)))", main: "P(a=3)"},
			{code: "print('\\0x\\0')", stdout: "x\n"},
		},
		"javascript": {
			{code: "const x = 20; x + 1", main: "21"},
			{code: "const x = 5; console.log('a', x); x * 8", stdout: "a 5\n", main: "40"},
			{code: "let y = await Promise.resolve(6)\ny", main: "6"},
			{code: "console.error('bad')", stderr: "bad\n"},
			{code: "({a: [1]})", main: "{ a: [ 1 ] }", has: map[string]any{"json": map[string]any{"a": []any{1.0}}}},
			{code: "'text'", main: "text"},
			{code: "process.env.A", env: map[string]string{"A": "b"}, main: "b"},
			{code: "process.env.A"},
			{code: "import { basename } from 'node:path'\nimport fs from 'fs'\nbasename('/a/b') + typeof fs.readFileSync", main: "bfunction"},
			{code: "const os = require('os'); typeof os.cpus", main: "function"},
			{code: "(await import('node:url')).URL.name", main: "URL"},
			{code: "throw new TypeError('no')", err: "TypeError", value: "no"},
			{code: "null.x", err: "TypeError", value: "null"},
			{code: "await Promise.reject(new Error('later'))", err: "Error", value: "later"},
			{code: "let = =", err: "SyntaxError"},
			{code: "display({a: 1}); 3", main: "3", has: map[string]any{"json": map[string]any{"a": 1.0}}},
			{code: "require('child_process').execSync('echo below; echo err >&2', {stdio: 'inherit'}); 0", main: "0", stdout: "below\n", stderr: "err\n"},
		},
		"bash": {
			{code: "x=20; cd /; echo $x", stdout: "20\n"},
			{code: "echo $x; pwd; echo bad >&2", stdout: "20\n/\n", stderr: "bad\n"},
			{code: "echo $A$x", env: map[string]string{"A": "it's "}, stdout: "it's 20\n"},
			{code: "echo $A", stdout: "\n"},
			{code: "false", err: "ExitCode", value: "exit code 1"},
			{code: "cat; if", err: "ExitCode", value: "exit code"},
			{code: "f() { echo in f; }; f", stdout: "in f\n"},
		},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if l, _ := languageOf(language); l.name == "" {
				t.Skipf("no program for %s is installed", language)
			}
			url := start(t)
			for i, c := range cells {
				got := run(t, url, execution{Code: c.code, Language: language, Env: c.env})
				main := ""
				found := len(c.has) == 0
				for _, r := range got.results {
					if r["is_main_result"] == true {
						main, _ = r["text"].(string)
					}
					for name, want := range c.has {
						a, _ := json.Marshal(r[name])
						b, _ := json.Marshal(want)
						found = found || string(a) == string(b)
					}
				}
				name, _ := got.err["name"].(string)
				value, _ := got.err["value"].(string)
				if got.stdout != c.stdout && len(c.stdout) > 0 || c.stdout == "" && got.stdout != "" || c.stderr != "" && got.stderr != c.stderr ||
					c.main == "" && main != "" || !strings.HasPrefix(main, c.main) || !found || name != c.err || !strings.Contains(value, c.value) {
					t.Errorf("%d: %s: %.300v, want %.300v", i, c.code, got, c)
				}
				if got.count != float64(i+1) {
					t.Errorf("%d: it is execution %v", i, got.count)
				}
			}
		})
	}
}

// TestTraceback: it has the lines of the code, and none of the program around it.
func TestTraceback(t *testing.T) {
	t.Parallel()
	url := start(t)
	got := run(t, url, execution{Code: "def inner():\n    raise KeyError('k')\ninner()"})
	text, _ := got.err["traceback"].(string)
	if !strings.Contains(text, "raise KeyError('k')") || !strings.Contains(text, "<cell 1>") || strings.Contains(text, "evaluate") {
		t.Errorf("%s", text)
	}
}

func TestContexts(t *testing.T) {
	t.Parallel()
	url := start(t)
	status, text := ask(t, "POST", url+"/contexts", `{"language":"python","cwd":"/usr"}`)
	var made contextRow
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != 200 || made.Dir != "/usr" || made.Language != "python" {
		t.Fatalf("%d %s", status, text)
	}
	in := func(code string) outcome { return run(t, url, execution{Code: code, Context: made.ID}) }
	if out := in("import os; x = 3; print(os.getcwd())"); out.stdout != "/usr\n" {
		t.Errorf("%v", out)
	}
	if out := run(t, url, execution{Code: "x"}); out.err["name"] != "NameError" {
		t.Errorf("the default context has a variable of another one: %v", out)
	}
	if _, text := ask(t, "GET", url+"/contexts", ""); !strings.Contains(text, made.ID) || !strings.Contains(text, `"python"`) {
		t.Errorf("%s", text)
	}
	if status, text := ask(t, "POST", url+"/contexts/"+made.ID+"/restart", ""); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if out := in("x"); out.err["name"] != "NameError" || out.count != 1 {
		t.Errorf("after a restart: %v", out)
	}
	if out := in("import os; os._exit(3)"); out.err["name"] != "ContextEnded" || !strings.Contains(out.err["value"].(string), "exit status 3") {
		t.Errorf("the process ended: %v", out)
	}
	if out := in("1"); len(out.results) != 1 {
		t.Errorf("after its end: %v", out)
	}
	if status, _ := ask(t, "DELETE", url+"/contexts/"+made.ID, ""); status != 204 {
		t.Errorf("%d", status)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "/execute", `{"code":"1","context_id":"` + made.ID + `"}`, 404, "does not exist"},
		{"DELETE", "/contexts/nosuch", "", 404, "does not exist"},
		{"POST", "/execute", `{"code":"1","language":"cobol"}`, 400, "cobol"},
		{"POST", "/contexts", `{"cwd":"/nosuch"}`, 400, "/nosuch"},
		{"POST", "/execute", `{`, 400, "JSON"},
		{"GET", "/nosuch", "", 404, "POST /execute"},
		{"GET", "/health", "", 200, "ok"},
	} {
		if status, text := ask(t, c.method, url+c.path, c.body); status != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	for i := range maxContexts {
		if status, text := ask(t, "POST", url+"/contexts", `{}`); status != 200 {
			if i == 0 || status != 429 {
				t.Errorf("context %d: %d %s", i, status, text)
			}
			return
		}
	}
	t.Errorf("there is no limit of contexts")
}

// TestRestartWithOthers: a context ends also if a program that it started lives on and holds its output.
func TestRestartWithOthers(t *testing.T) {
	t.Parallel()
	url := start(t)
	out := run(t, url, execution{Code: "import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True).pid"})
	if len(out.results) != 1 {
		t.Fatalf("%v", out)
	}
	pid, err := strconv.Atoi(out.results[0]["text"].(string))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if status, text := ask(t, "POST", url+"/contexts/python/restart", ""); status != 204 {
		t.Errorf("%d %s", status, text)
	}
	if out := run(t, url, execution{Code: "1"}); len(out.results) != 1 {
		t.Errorf("%v", out)
	}
}

// TestInterrupted: code that does not end ends when it is interrupted or its client leaves, and the context keeps what it had.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for language, code := range map[string][3]string{
		"python":     {"x = 4", "print('began', flush=True)\nwhile True: pass", "x"},
		"javascript": {"var x = 4", "console.log('began'); for (;;) ;", "x"},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(language+map[bool]string{false: " interrupt", true: " leave"}[leaves], func(t *testing.T) {
				t.Parallel()
				if l, _ := languageOf(language); l.name == "" {
					t.Skipf("no program for %s is installed", language)
				}
				url := start(t)
				run(t, url, execution{Code: code[0], Language: language})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				body, _ := json.Marshal(execution{Code: code[1], Language: language})
				req, _ := http.NewRequestWithContext(ctx, "POST", url+"/execute", strings.NewReader(string(body)))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				br := bufio.NewReader(resp.Body)
				for text := ""; !strings.Contains(text, "began"); {
					if text, err = br.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				if leaves {
					cancel()
				} else if status, text := ask(t, "POST", url+"/contexts/"+language+"/interrupt", ""); status != 204 {
					t.Errorf("%d %s", status, text)
				} else if rest, err := io.ReadAll(br); err != nil || !strings.Contains(string(rest), `nterrupt`) {
					t.Errorf("%s, %v", rest, err)
				}
				if out := run(t, url, execution{Code: code[2], Language: language}); len(out.results) != 1 || out.results[0]["text"] != "4" {
					t.Errorf("afterwards: %v", out)
				}
			})
		}
	}
}

// TestTurns: code of one context waits for its turn, that of others does not.
func TestTurns(t *testing.T) {
	t.Parallel()
	url := start(t)
	done := make(chan outcome)
	go func() {
		done <- run(t, url, execution{Code: "import os\nwhile not os.path.exists('" + t.TempDir() + "/go'): pass\n1"})
	}()
	run(t, url, execution{Code: "x=1", Language: "bash"}) // does not wait
	_, text := ask(t, "POST", url+"/contexts", "{}")
	var other contextRow
	json.Unmarshal([]byte(text), &other)
	if out := run(t, url, execution{Code: "2", Context: other.ID}); len(out.results) != 1 {
		t.Errorf("%v", out)
	}
	ask(t, "POST", url+"/contexts/python/interrupt", "")
	<-done
}
