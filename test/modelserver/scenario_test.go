package modelserver_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"hortus.dev/test/modelserver"
)

func TestParse(t *testing.T) {
	for scenario, says := range map[string]string{
		"":                                    "no step",
		"mood: good\n-- a --\n":               "unknown key",
		"side: answer\n-- a --\n":             "side",
		"-- a --\nmood: good\n":               "unknown key",
		"-- a --\nhello\n":                    "not a key and a value",
		"-- a --\nstatus: 200\n":              "status",
		"-- a --\nwire: soap\n":               "wire",
		"-- a --\nanswer: call\n":             "answer",
		"-- a --\nfail: x\n\nbody\n":          "fail needs cut",
		"-- a --\nendless: true\n":            "endless needs a body",
		"-- a --\nusage: 1 2 3\n":             "usage",
		"-- a --\ndelay: soon\n":              "invalid duration",
		"-- a --\nheader: X\n":                "header",
		"-- a --\ntimes: 0\n":                 "times",
		"-- a --\npiece: 0\n":                 "piece",
		"-- a --\n\nbody only\n":              "",
		"# note\nkey: k\n-- a --\n# note\n":   "",
		"-- a --\nexpect: a: b\ncall: read\n": "",
	} {
		_, err := modelserver.Parse([]byte(scenario))
		if (err == nil) != (says == "") || (err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v, want %q", scenario, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("key: k\n-- a --\nstatus: 429\nheader: Retry-After: 1\n\nslow down\n-- b --\ncall: read\nusage: 3 2 1\n\n{}\n"))
	f.Add([]byte("-- a --\ncut: 3\nfail: overloaded_error\npiece: 1\n\nžluť\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := modelserver.Parse(text)
		if err != nil {
			return
		}
		for _, step := range s.Steps {
			if step.Times < 1 || step.Piece < 1 || (step.Endless && step.Body == "") {
				t.Errorf("%+v", step)
			}
		}
	})
}

// post sends a request that does not stream.
func post(t *testing.T, url, key, body string) (int, map[string]any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return resp.StatusCode, doc
}

// look follows a path of names and indices.
func look(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// Without a stream an answer is one document.
func TestWhole(t *testing.T) {
	for _, tt := range []struct {
		path, body       string
		text, call, used []any
		arguments        any
	}{
		{"/v1/messages", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"name":"read"}]}`,
			[]any{"content", 0, "text"}, []any{"content", 0, "input"}, []any{"usage", "cache_read_input_tokens"}, map[string]any{"n": 1.0}},
		{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"name":"read"}}]}`,
			[]any{"choices", 0, "message", "content"}, []any{"choices", 0, "message", "tool_calls", 0, "function", "arguments"},
			[]any{"usage", "prompt_tokens_details", "cached_tokens"}, `{"n":1}`},
		{"/v1/responses", `{"model":"m","input":"hi","tools":[{"name":"read"}]}`,
			[]any{"output", 0, "content", 0, "text"}, []any{"output", 0, "arguments"},
			[]any{"usage", "input_tokens_details", "cached_tokens"}, `{"n":1}`},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"read"}]}]}`,
			[]any{"candidates", 0, "content", "parts", 0, "text"}, []any{"candidates", 0, "content", "parts", 0, "functionCall", "args"},
			[]any{"usageMetadata", "cachedContentTokenCount"}, map[string]any{"n": 1.0}},
	} {
		t.Run(tt.path, func(t *testing.T) {
			s, err := modelserver.New([]byte("key: k\nside: ignore\n-- text --\nexpect: hi\nusage: 9 4 1\ntimes: 2\n\nhello\n-- call --\ncall: read\n\n{\"n\":1}\n-- late --\nexpect: nowhere\n"))
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(s)
			defer srv.Close()
			for range 2 {
				if code, doc := post(t, srv.URL+tt.path, "k", tt.body); code != 200 || look(doc, tt.text...) != "hello" || look(doc, tt.used...) != 4.0 {
					t.Errorf("%d %v", code, doc)
				}
			}
			code, doc := post(t, srv.URL+tt.path, "k", tt.body)
			if got, _ := json.Marshal(look(doc, tt.call...)); code != 200 || string(got) != string(mustJSON(t, tt.arguments)) {
				t.Errorf("%d %v", code, doc)
			}
			if code, doc := post(t, srv.URL+tt.path, "wrong", tt.body); code != 401 || look(doc, "error", "type") != "authentication_error" && look(doc, "error", "status") != "UNAUTHENTICATED" {
				t.Errorf("%d %v", code, doc)
			}
			// A request beside the work uses up no step.
			if code, _ := post(t, srv.URL+tt.path, "k", `{"model":"m"}`); code != 200 {
				t.Errorf("%d", code)
			}
			if code, _ := post(t, srv.URL+tt.path, "k", tt.body); code != 400 {
				t.Errorf("%d for what was not expected", code)
			}
			if code, _ := post(t, srv.URL+tt.path, "k", tt.body); code != 400 {
				t.Errorf("%d after the last step", code)
			}
			want := []string{`step late: the request does not hold "nowhere"`, "a request came after the last step"}
			if got := s.Problems(); !slices.Equal(got, want) || s.Requests() != 7 {
				t.Errorf("%d requests, problems %q", s.Requests(), got)
			}
		})
	}
}

// TestGeminiStream: the events of a stream of Gemini, whose path has the model, and the results of its calls.
func TestGeminiStream(t *testing.T) {
	s, err := modelserver.New([]byte("key: k\nmodel: m\n-- call --\nwire: gemini\nsay: I read it.\nact: shell\n\nls\n" +
		"-- text --\nlast: a.txt\npiece: 3\n\nžluť and more\n-- slow --\nstatus: 429\n\nslow down\n"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(s)
	defer srv.Close()
	ask := func(model, contents string) (int, string) {
		t.Helper()
		body := `{"contents":[` + contents + `],"tools":[{"functionDeclarations":[{"name":"run_shell_command","parametersJsonSchema":{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}}]}]}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1beta/models/"+model+":streamGenerateContent?alt=sse", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Goog-Api-Key", "k")
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
	if code, text := ask("other", ""); code != 404 || !strings.Contains(text, "NOT_FOUND") {
		t.Errorf("%d %s", code, text)
	}
	const user = `{"role":"user","parts":[{"text":"hi"}]}`
	code, text := ask("m", user)
	if code != 200 || !strings.Contains(text, `"text":"I read it."`) || !strings.Contains(text, `"functionCall":{"args":{"command":"ls"}`) || !strings.Contains(text, `"finishReason":"STOP"`) {
		t.Errorf("%d %s", code, text)
	}
	code, text = ask("m", user+`,{"role":"model","parts":[{"functionCall":{"name":"run_shell_command"}}]},{"role":"user","parts":[{"functionResponse":{"name":"run_shell_command","response":{"output":"a.txt"}}}]}`)
	said := ""
	for line := range strings.Lines(text) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var doc any
		if err := json.Unmarshal([]byte(data), &doc); err != nil {
			t.Fatalf("%v: %s", err, data)
		}
		piece, _ := look(doc, "candidates", 0, "content", "parts", 0, "text").(string)
		said += piece
	}
	if code != 200 || said != "žluť and more" || strings.Contains(text, "[DONE]") {
		t.Errorf("%d %q", code, said)
	}
	if code, text := ask("m", user); code != 429 || !strings.Contains(text, "RESOURCE_EXHAUSTED") {
		t.Errorf("%d %s", code, text)
	}
	if got := s.Problems(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestUnusedSteps(t *testing.T) {
	s, err := modelserver.New([]byte("-- one --\n-- two --\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Problems(); !slices.Equal(got, []string{"step one was not used", "step two was not used"}) {
		t.Errorf("%q", got)
	}
}

// TestAct: a step that acts calls a tool of the request, whatever its names are.
func TestAct(t *testing.T) {
	for _, tt := range []struct{ name, act, tools, want string }{
		{"messages, write", "write /w/f.txt", `[{"name":"Bash","input_schema":{"properties":{"command":{"type":"string"}}}},{"name":"Write","input_schema":{"properties":{"file_path":{},"content":{}},"required":["file_path","content"]}}]`,
			`Write {"content":"BODY","file_path":"/w/f.txt"}`},
		{"chat, shell with what is required", "shell", `[{"type":"function","function":{"name":"run_shell_command","parameters":{"type":"object","properties":{"command":{"type":"string"},"is_background":{"type":"boolean"},"kind":{"enum":["x","y"]},"n":{"type":["integer","null"]}},"required":["command","is_background","kind","n"]}}}]`,
			`run_shell_command {"command":"BODY","is_background":false,"kind":"x","n":10000}`},
		{"responses, write by a command", "write /w/f.txt", `[{"type":"function","name":"exec_command","parameters":{"properties":{"cmd":{"type":"string"}}}}]`,
			`exec_command {"cmd":"mkdir -p '/w' && cat >'/w/f.txt' <<'SCRIPTED'\nBODY\nSCRIPTED"}`},
		{"a command as a list", "shell", `[{"type":"function","name":"shell","parameters":{"properties":{"command":{"type":"array"}}}}]`,
			`shell {"command":["sh","-c","BODY"]}`},
		{"nothing that acts", "shell", `[{"name":"Read","input_schema":{"properties":{"path":{}}}}]`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := modelserver.New([]byte("-- one --\nact: " + tt.act + "\n\nBODY\n"))
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(s)
			defer srv.Close()
			resp, err := http.Post(srv.URL+"/v1/messages", "application/json", strings.NewReader(`{"model":"m","messages":[],"tools":`+tt.tools+`}`))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var got struct {
				Content []struct {
					Name  string
					Input map[string]any
				}
			}
			if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				if resp.StatusCode != 400 || len(s.Problems()) != 1 {
					t.Errorf("%s, %q", resp.Status, s.Problems())
				}
				return
			}
			var text bytes.Buffer
			enc := json.NewEncoder(&text)
			enc.SetEscapeHTML(false)
			if len(got.Content) != 1 || enc.Encode(got.Content[0].Input) != nil {
				t.Fatalf("%+v", got)
			}
			if text := got.Content[0].Name + " " + strings.TrimSpace(text.String()); text != tt.want {
				t.Errorf("%s, want %s", text, tt.want)
			}
		})
	}
	for _, bad := range []string{"write", "shell now", "fly"} {
		if _, err := modelserver.Parse([]byte("-- one --\nact: " + bad + "\n\nx\n")); err == nil {
			t.Errorf("act: %s is accepted", bad)
		}
	}
}
