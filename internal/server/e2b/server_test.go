package e2b_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/e2b"
)

// TestShapes holds what answers look like, field by field.
func TestShapes(t *testing.T) {
	w := newWorld(t, nil)
	r := w.ask(t, "POST", "/v2/sandboxes", `{"templateID":"base"}`)
	id := w.make(t, `{"templateID":"host","metadata":{"a":"b"},"timeout":60,"network":{"allowPublicTraffic":false},"autoPause":false,"autoResume":{"enabled":false}}`)
	ids := map[string]string{id: "ID", r.body[strings.Index(r.body, `"i`)+1:][:api.IDLen]: "FIRST"}
	golden(t, r, http.StatusCreated, ids, `{"sandboxID":"FIRST","templateID":"base","clientID":"hortus","envdVersion":"0.6.13",
		"envdAccessToken":"envdFIRST","trafficAccessToken":null,"domain":"localhost:PORT"}`)
	golden(t, w.ask(t, "POST", "/v2/sandboxes/"+id+"/connect", `{}`), http.StatusOK, ids, `{"sandboxID":"ID","templateID":"base","clientID":"hortus",
		"envdVersion":"0.6.13","envdAccessToken":"envdID","trafficAccessToken":"trafficID","domain":"localhost:PORT"}`)
	listed := `{"sandboxID":"ID","templateID":"base","clientID":"hortus","startedAt":"TIME","endAt":"TIME","state":"running",
		"cpuCount":1,"memoryMB":1024,"diskSizeMB":512,"envdVersion":"0.6.13","metadata":{"a":"b"},"volumeMounts":[]`
	golden(t, w.ask(t, "GET", "/sandboxes/"+id, ""), http.StatusOK, ids, listed+`,"envdAccessToken":"envdID","domain":"localhost:PORT",
		"network":{"allowPublicTraffic":false},"lifecycle":{"onTimeout":"kill","autoResume":false},"allowInternetAccess":true}`)
	golden(t, w.ask(t, "GET", "/v2/sandboxes?metadata=a%3Db", ""), http.StatusOK, ids, "["+listed+"}]")
	golden(t, w.ask(t, "GET", "/sandboxes?metadata=a%3Db", ""), http.StatusOK, ids, "["+listed+"}]")
	golden(t, w.ask(t, "GET", "/sandboxes/"+id+"/metrics", ""), http.StatusOK, ids, `[]`)
	golden(t, w.ask(t, "GET", "/sandboxes/metrics?sandbox_ids="+id, ""), http.StatusOK, ids, `{"sandboxes":{}}`)
	golden(t, w.ask(t, "GET", "/snapshots", ""), http.StatusBadRequest, ids, `{"code":400,"error_code":"unsupported","message":"this daemon has no snapshot store"}`)
	golden(t, w.ask(t, "GET", "/sandboxes/"+id+"/logs", ""), http.StatusOK, ids, `{
		"logs":[{"timestamp":"TIME","line":"{\"level\":\"info\",\"logger\":\"process\",\"message\":\"created: isolation process, template host\"}"}],
		"logEntries":[{"timestamp":"TIME","level":"info","message":"created: isolation process, template host","fields":{}}]}`)
	golden(t, w.ask(t, "POST", "/sandboxes/"+id+"/timeout", `{"timeout":100}`), http.StatusNoContent, ids, ``)
	golden(t, w.ask(t, "POST", "/sandboxes/"+id+"/refreshes", `{"duration":3600}`), http.StatusNoContent, ids, ``)
	golden(t, w.ask(t, "POST", "/sandboxes/"+id+"/refreshes", ``), http.StatusNoContent, ids, ``)
	golden(t, w.ask(t, "POST", "/sandboxes/"+id+"/resume", `{}`), http.StatusConflict, ids, `{"code":409,"error_code":"conflict","message":"sandbox ID is already running"}`)
	golden(t, w.ask(t, "DELETE", "/sandboxes/"+id, ""), http.StatusNoContent, ids, ``)
	golden(t, w.ask(t, "DELETE", "/sandboxes/"+id, ""), http.StatusNotFound, ids, `{"code":404,"error_code":"not_found","message":"sandbox ID was not found: it has ended (killed)"}`)
	if r := w.ask(t, "GET", "/health", "", "X-API-KEY", ""); r.status != http.StatusOK {
		t.Errorf("health: %d %s", r.status, r.body)
	}
}

// TestLimitsOfMetadata: metadata sets limits of a sandbox. The backend here cannot limit processors, and says so.
func TestLimitsOfMetadata(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make(t, `{"templateID":"base","metadata":{"hortus.memory":"300","a":"b"}}`)
	if r := w.ask(t, "GET", "/sandboxes/"+id, ""); !strings.Contains(r.body, `"memoryMB":300`) || !strings.Contains(r.body, `"diskSizeMB":512`) {
		t.Errorf("%s", r.body)
	}
	r := w.ask(t, "POST", "/v2/sandboxes", `{"templateID":"base","metadata":{"hortus.cpus":"2"}}`)
	if r.status != http.StatusBadRequest || !strings.Contains(r.body, "cannot limit cpus") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// TestRefused holds that every option that cannot be honoured is refused by its name,
// and that nothing is made.
func TestRefused(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make(t, `{"templateID":"base"}`)
	one := "/sandboxes/" + id
	const v1, v2 = "/sandboxes", "/v2/sandboxes"
	with := func(option string) string { return `{"templateID":"base",` + option + `}` }
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", v2, ``, 400, "empty"},
		{"POST", v2, `null`, 400, "a JSON object is expected"},
		{"POST", v2, `{}`, 400, "templateID"},
		{"POST", v2, `[]`, 400, "array"},
		{"POST", v2, `{"templateID":"base"`, 400, "unexpected EOF"},
		{"POST", v2, `{"templateID":"base"}{}`, 400, "more than one"},
		{"POST", v2, with(`"metadata":{"a":"` + strings.Repeat("x", 2<<20) + `"}`), 400, "bytes"},
		{"POST", v2, with(`"metadata":{"a":"` + strings.Repeat("x", 5<<10) + `"}`), 400, "metadata"},
		{"POST", v2, with(`"metadata":{"":"a"}`), 400, "metadata"},
		{"POST", v2, with(`"metadata":{"a":1}`), 400, "metadata"},
		{"POST", v2, with(`"metadata":"a"`), 400, "metadata"},
		{"POST", v2, with(`"color":"red"`), 400, `"color"`},
		{"POST", v1, with(`"color":"red"`), 400, `"color"`},
		{"POST", v2, with(`"secure":true`), 400, `"secure"`},
		{"POST", v1, with(`"secure":false`), 400, `"secure"`},
		{"POST", v2, with(`"timeout":0`), 400, "timeout"},
		{"POST", v2, with(`"timeout":-1`), 400, "timeout"},
		{"POST", v2, with(`"timeout":86401`), 400, "timeout"},
		{"POST", v2, with(`"timeout":9223372036854775807`), 400, "timeout"},
		{"POST", v2, with(`"timeout":1.5`), 400, "timeout"},
		{"POST", v2, with(`"timeout":"1"`), 400, "timeout"},
		{"POST", v2, with(`"envVars":{"A=B":"c"}`), 400, "A=B"},
		{"POST", v2, with(`"iam":{"tokens":{}}`), 400, `"iam"`},
		{"POST", v2, with(`"mcp":{}`), 400, `"mcp"`},
		{"POST", v2, with(`"volumeMounts":[{"name":"a","path":"/a"}]`), 400, "cannot be mounted"},
		{"POST", v2, with(`"autoPause":true`), 400, `"autoPause"`},
		{"POST", v2, with(`"autoPause":true,"autoPauseMemory":false`), 400, `"autoPauseMemory"`},
		{"POST", v2, with(`"autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}`), 400, `"autoResume"`},
		{"POST", v2, with(`"autoResume":{"enabled":true,"after":1}`), 400, `"after"`},
		{"POST", v2, with(`"network":{"allowOut":["8.8.8.8"]}`), 400, "network.allowOut"},
		{"POST", v2, with(`"network":{"rules":{"a":[]}}`), 400, "network.rules"},
		{"POST", v2, with(`"network":{"egressProxy":{"address":"a:1"}}`), 400, "network.egressProxy"},
		{"POST", v2, with(`"network":{"maskRequestHost":"a"}`), 400, "network.maskRequestHost"},
		{"POST", v2, with(`"network":{"httpsPorts":[443]}`), 400, "network.httpsPorts"},
		{"POST", v2, with(`"network":{"denyOut":["example.com"]}`), 400, "network.denyOut"},
		{"POST", v2, with(`"network":{"other":1}`), 400, `"other"`},
		// The process backend has its host's network, and that cannot be closed.
		{"POST", v2, with(`"allow_internet_access":false`), 400, "allow_internet_access"},
		{"POST", v2, with(`"network":{"denyOut":["0.0.0.0/0"]}`), 400, "network.denyOut"},
		{"POST", v2, `{"templateID":"nosuch"}`, 404, "nosuch"},
		{"POST", v2, `{"templateID":"code-interpreter-v2"}`, 404, "code-interpreter-v2"},
		{"POST", v2, `{"templateID":"base:v2"}`, 404, "base:v2"},
		{"POST", v2, `{"templateID":"../host"}`, 404, "not found"},
		{"POST", v2, `{"templateID":"s0000000000000000000"}`, 404, "s0000000000000000000"},

		{"GET", v2 + "?limit=0", ``, 400, "limit"},
		{"GET", v2 + "?limit=101", ``, 400, "limit"},
		{"GET", v2 + "?limit=1&limit=2", ``, 400, "limit"},
		{"GET", v2 + "?order=up", ``, 400, "order"},
		{"GET", v2 + "?state=dead", ``, 400, "state"},
		{"GET", v2 + "?startedAfter=yesterday", ``, 400, "startedAfter"},
		{"GET", v2 + "?nextToken=x", ``, 400, "nextToken"},
		{"GET", v2 + "?metadata=%25zz", ``, 400, "metadata"},
		{"GET", v2 + "?color=red", ``, 400, `"color"`},
		{"GET", v2 + "?a;b", ``, 400, "malformed"},
		{"GET", v1 + "?limit=1", ``, 400, "limit"},

		{"POST", one + "/timeout", `{}`, 400, "timeout"},
		{"POST", one + "/timeout", `{"timeout":-1}`, 400, "timeout"},
		{"POST", one + "/timeout", `{"timeout":90000}`, 400, "timeout"},
		{"POST", one + "/refreshes", `{"duration":4000}`, 400, "duration"},
		{"POST", one + "/connect", `{}`, 400, "timeout"}, // required of the first generation
		{"POST", "/v2" + one + "/connect", `{"memory":1}`, 400, "memory"},
		{"POST", "/v2" + one + "/connect", `{"autoPause":true}`, 400, "autoPause"},
		{"POST", one + "/pause", `{}`, 400, `"memory"`},
		{"POST", one + "/pause", `{"memory":false}`, 400, `"memory"`},
		{"POST", one + "/pause", `{"fast":true}`, 400, `"fast"`},
		{"POST", one + "/fork", `{"count":0}`, 400, "count"},
		{"POST", one + "/fork", `{"count":101}`, 400, "count"},
		{"POST", one + "/fork", `{"timeout":-5}`, 400, "timeout"},
		{"POST", one + "/fork", ``, 400, "snapshot"},
		{"POST", one + "/snapshots", `{"name":"Has Capitals"}`, 400, `"name"`},
		{"POST", one + "/snapshots", `{"name":"base"}`, 400, `"name"`},
		{"POST", one + "/snapshots", `{"name":"a:-"}`, 400, `"name"`},
		{"POST", one + "/snapshots", `{"name":"base:v2"}`, 400, `"name"`},
		{"PUT", one + "/network", `{"allow_internet_access":false}`, 400, "allow_internet_access"},
		{"PUT", one + "/network", `{"allowOut":["a"]}`, 400, "allowOut"},
		{"PUT", one + "/network", `{"allowPublicTraffic":true}`, 400, "allowPublicTraffic"},
		{"GET", one + "/metrics?start=x", ``, 400, "start"},
		{"GET", one + "/metrics?start=2&end=1", ``, 400, "start"},
		{"GET", "/sandboxes/metrics", ``, 400, "sandbox_ids"},
		{"GET", "/v2" + one + "/logs?level=loud", ``, 400, "level"},
		{"GET", "/v2" + one + "/logs?direction=up", ``, 400, "direction"},
		{"DELETE", "/templates/base", ``, 403, "base"},

		{"POST", "/v3/templates", `{"name":"a"}`, 400, "builds"},
		{"GET", "/templates/a/files/b", ``, 400, "builds"},
		{"POST", "/templates/tags", `{"target":"a:v1","tags":["b"]}`, 404, "a:v1"},
		{"POST", "/templates/tags", `{"target":"base","tags":["b"]}`, 403, "base"},
		{"POST", "/templates/tags", `{"target":"base:v1","tags":["b"]}`, 404, "base:v1"},
		{"POST", "/templates/tags", `{"target":"a","tag":"b"}`, 400, `"tag"`},
		{"DELETE", "/templates/tags", `{"name":"a","tags":["b"]}`, 404, "a:b"}, // not the template "tags"
		{"DELETE", "/templates/tags", `{"name":"a","tags":[]}`, 400, "tags"},
		{"DELETE", "/templates/tags", `{"name":"a:b","tags":["b"]}`, 400, `"name"`},
		{"DELETE", "/templates/tags", `{"name":"base","tags":["default"]}`, 403, "base"},
		{"POST", "/templates", `{}`, 400, `of the E2B API: POST "/templates"`},
		{"GET", "/access-tokens", ``, 400, "API keys and access tokens of the E2B API: GET"},
		{"PATCH", "/v2/templates/a", `{}`, 400, "templates"},
		{"POST", "/volumes", `{"name":"a"}`, 400, "volumes"},
		{"GET", "/volumecontent/a/dir", ``, 400, "volumes"},
		{"GET", "/secrets", ``, 400, "secrets"},
		{"GET", "/teams", ``, 400, "teams"},
		{"POST", "/events/webhooks", `{}`, 400, "webhooks"},
		{"GET", "/events/sandboxes/i1", ``, 400, "lifecycle events"},
		{"GET", "/webhooks", ``, 400, "webhooks"},
		{"POST", v2, with(`"metadata":{"hortus.memory":"2GB"}`), 400, "hortus.memory"},
		{"POST", v2, with(`"metadata":{"hortus.disk":"0"}`), 400, "MiB"},
		{"POST", v2, with(`"metadata":{"hortus.cpus":"NaN"}`), 400, "processors"},
		{"POST", v2, with(`"metadata":{"hortus.gpu":"1"}`), 400, "hortus.gpu"},
		{"GET", "/api-keys", ``, 400, "keys"},
		{"GET", "/volumecontent", ``, 400, "volumes"},
		{"POST", "/admin", ``, 400, "nodes"},
		{"PUT", "/templates", `{}`, 400, "templates"},
		{"DELETE", "/v2/templates", ``, 400, "templates"},
		{"PATCH", "/v3/templates", `{}`, 400, "templates"},

		// An address with options that nobody knows.
		{"POST", v1 + "?dry=1", with(`"timeout":5`), 400, `"dry"`},
		{"POST", v2 + "?dry=1", with(`"timeout":5`), 400, `"dry"`},
		{"GET", one + "?full=1", ``, 400, `"full"`},
		{"DELETE", one + "?in=5", ``, 400, `"in"`},
		{"POST", one + "/timeout?timeout=5", `{"timeout":5}`, 400, `"timeout"`},
		{"POST", one + "/refreshes?duration=5", ``, 400, `"duration"`},
		{"POST", one + "/connect?timeout=5", `{"timeout":5}`, 400, `"timeout"`},
		{"POST", "/v2" + one + "/connect?timeout=5", ``, 400, `"timeout"`},
		{"POST", one + "/resume?timeout=5", ``, 400, `"timeout"`},
		{"POST", one + "/pause?memory=false", ``, 400, `"memory"`},
		{"PUT", one + "/network?open=1", `{}`, 400, `"open"`},
		{"POST", one + "/snapshots?name=a", ``, 400, `"name"`},
		{"POST", one + "/fork?count=2", ``, 400, `"count"`},
		{"GET", "/templates/aliases/base?tag=v2", ``, 400, `"tag"`},
		{"DELETE", "/templates/base?force=1", ``, 400, `"force"`},
		{"GET", one + "/metrics?every=5", ``, 400, `"every"`},
		{"GET", one + "/logs?follow=1", ``, 400, `"follow"`},
		{"GET", "/nosuch", ``, 404, "/nosuch"},
		{"PATCH", one, `{}`, 404, "PATCH"},
		{"GET", "/sandboxes//metrics", ``, 404, "unknown route"},
		{"GET", "/sandboxes/", ``, 404, "unknown route"},
	} {
		r := w.ask(t, c.method, c.path, c.body)
		if r.status != c.status || !strings.Contains(r.body, strings.ReplaceAll(c.says, `"`, `\"`)) {
			t.Errorf("%s %s %.80s: %d %.300s; want %d and %q", c.method, c.path, c.body, r.status, r.body, c.status, c.says)
		}
	}
	if all, err := w.Sandboxes.List(t.Context(), true); err != nil || len(all) != 1 {
		t.Errorf("made %d sandboxes, %v; want the one", len(all), err)
	}
}

// TestAsked: what an SDK before 2.51 reports whether or not its user did is mistaken for
// nothing, and what is empty asks for nothing.
func TestAsked(t *testing.T) {
	w := newWorld(t, nil)
	for path, body := range map[string]string{
		"/sandboxes": `{"templateID":"base","timeout":300,"secure":true,"allow_internet_access":true,"autoPause":false}`,
		"/v2/sandboxes": `{"templateID":"base:default","timeout":null,"metadata":null,"envVars":{},"network":{"allowOut":[],"rules":{},"egressProxy":null},
			"iam":null,"mcp":null,"volumeMounts":[],"autoResume":{"enabled":false},"allow_internet_access":true}`,
	} {
		if r := w.ask(t, "POST", path, body); r.status != http.StatusCreated {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// TestAuth: nobody comes in without a key that works, and learns nothing.
func TestAuth(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make(t, `{"templateID":"base"}`)
	for _, key := range []string{"", "x", keyA + "0", strings.Repeat("e", 4096), " "} {
		for _, path := range []string{"/v2/sandboxes", "/sandboxes/" + id, "/nosuch", "/secrets"} {
			if r := w.ask(t, "GET", path, "", "X-API-KEY", key); r.status != http.StatusUnauthorized || strings.Contains(r.body, id) {
				t.Errorf("%s with key %.10q: %d %s", path, key, r.status, r.body)
			}
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.srv.URL+"/sandboxes", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["X-Api-Key"] = []string{keyA, "other"} // which of them is it?
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("two keys: %v, %v", resp, err)
	}
	resp.Body.Close()
}

// TestStrangers: somebody else's sandbox, one that has ended, one that never was and
// something that is no id at all are answered with the same words. Its owner and the
// operator have it.
func TestStrangers(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make(t, `{"templateID":"base"}`)
	over := w.make(t, `{"templateID":"base"}`)
	if r := w.ask(t, "DELETE", "/sandboxes/"+over, ""); r.status != http.StatusNoContent {
		t.Fatal(r)
	}
	calls := []struct{ method, before, after, body string }{
		{"GET", "/sandboxes/", "", ""}, {"POST", "/sandboxes/", "/timeout", `{"timeout":5}`}, {"POST", "/sandboxes/", "/refreshes", `{}`},
		{"POST", "/v2/sandboxes/", "/connect", `{}`}, {"POST", "/sandboxes/", "/connect", `{"timeout":5}`}, {"POST", "/sandboxes/", "/resume", `{}`},
		{"POST", "/sandboxes/", "/pause", `{}`}, {"POST", "/sandboxes/", "/snapshots", `{}`}, {"POST", "/sandboxes/", "/fork", `{}`},
		{"GET", "/sandboxes/", "/metrics", ""}, {"GET", "/sandboxes/", "/logs", ""}, {"GET", "/v2/sandboxes/", "/logs", ""},
		{"PUT", "/sandboxes/", "/network", `{}`}, {"DELETE", "/sandboxes/", "", ""},
	}
	for _, c := range calls {
		for _, x := range []string{id, over, "i0000000000000000000", id[:19], id + "0", strings.ToUpper(id), "%2e%2e", "%00"} {
			r := w.ask(t, c.method, c.before+x+c.after, c.body, "X-API-KEY", keyB)
			if r.status != http.StatusNotFound || !strings.Contains(r.body, "was not found") && x != "%2e%2e" {
				t.Errorf("%s %s%s%s: %d %s", c.method, c.before, x, c.after, r.status, r.body)
			}
		}
	}
	for _, key := range []string{keyB, keyAdmin} {
		want := map[string]int{keyB: 0, keyAdmin: 1}[key]
		if r := w.ask(t, "GET", "/v2/sandboxes", "", "X-API-KEY", key); strings.Count(r.body, "sandboxID") != want {
			t.Errorf("listed for %s: %s", key, r.body)
		}
	}
	if r := w.ask(t, "GET", "/sandboxes/metrics?sandbox_ids="+id, "", "X-API-KEY", keyB); r.body != `{"sandboxes":{}}`+"\n" {
		t.Errorf("metrics: %s", r.body)
	}
	for _, key := range []string{keyA, keyAdmin} {
		if r := w.ask(t, "GET", "/sandboxes/"+id, "", "X-API-KEY", key); r.status != http.StatusOK {
			t.Errorf("its own: %d %s", r.status, r.body)
		}
	}
}

// TestDomain: ports are where the operator says, or where the client itself came to.
func TestDomain(t *testing.T) {
	worlds := map[string]*world{}
	for _, set := range []string{"", "sbx.example"} {
		worlds[set] = newWorld(t, func(cfg *e2b.Config) { cfg.Domain = set })
	}
	for _, c := range []struct{ set, host, want string }{
		{"", "127.0.0.1:3000", "localhost:3000"}, {"", "[::1]:3000", "localhost:3000"}, {"", "localhost:3000", "localhost:3000"},
		{"", "hortus.example:8080", "hortus.example:8080"}, {"", "api.box.test", "box.test"}, {"", "a_b:1", "localhost:1"},
		{"sbx.example", "127.0.0.1:3000", "sbx.example"},
	} {
		w := worlds[c.set]
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.srv.URL+"/v2/sandboxes", strings.NewReader(`{"templateID":"base"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-KEY", keyA)
		req.Host = c.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body := make([]byte, 4096)
		n, _ := resp.Body.Read(body)
		resp.Body.Close()
		if want := `"domain":"` + c.want + `"`; resp.StatusCode != http.StatusCreated || !strings.Contains(string(body[:n]), want) {
			t.Errorf("for %q: %s; want %s", c.host, body[:n], want)
		}
	}
}

// scripted is a manager that says of one sandbox what a test wants.
type scripted struct {
	accounts
	state   api.SandboxState
	resumed bool
	err     error
	calls   []string
}

func (s *scripted) Get(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	row, err := s.accounts.Get(ctx, id)
	row.State = s.state
	return row, err
}

func (s *scripted) Connect(ctx context.Context, id api.SandboxID, ttl time.Duration) (api.Sandbox, bool, error) {
	s.calls = append(s.calls, "connect "+ttl.String())
	row, err := s.accounts.Get(ctx, id)
	if s.err != nil {
		err = s.err
	}
	return row, s.resumed, err
}

func (s *scripted) PauseToDisk(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	s.calls = append(s.calls, "pause")
	return api.Sandbox{}, s.err
}

func (s *scripted) PauseFiles(ctx context.Context, id api.SandboxID) (api.Sandbox, error) {
	s.calls = append(s.calls, "pause files")
	return api.Sandbox{}, s.err
}

// TestTransitions holds what is answered in each state of a sandbox: the process
// backend cannot be in all of them.
func TestTransitions(t *testing.T) {
	s := &scripted{}
	w := newWorld(t, func(cfg *e2b.Config) {
		s.accounts = cfg.Sandboxes.(accounts)
		cfg.Sandboxes = s
	})
	id := w.make(t, `{"templateID":"base"}`)
	conflict := api.Errorf(api.KindConflict, "somebody else was quicker")
	for _, c := range []struct {
		name, path, body string
		state            api.SandboxState
		resumed          bool
		err              error
		status           int
		calls            string
	}{
		{"connect to one that runs", "/connect", `{"timeout":7}`, api.SandboxRunning, false, nil, 200, "connect 7s"},
		{"connect to one that is paused", "/connect", `{"timeout":7}`, api.SandboxPaused, true, nil, 201, "connect 7s"},
		{"by default", "v2/connect", ``, api.SandboxPaused, true, nil, 201, "connect 5m0s"},
		{"a paused one without its memory", "v2/connect", `{"memory":false}`, api.SandboxPaused, true, nil, 400, ""},
		{"a running one without its memory", "v2/connect", `{"memory":false}`, api.SandboxRunning, false, nil, 200, "connect 5m0s"},
		{"resume", "/resume", `{"timeout":7,"autoPause":false}`, api.SandboxPaused, true, nil, 201, "connect 7s"},
		{"resume and change the end", "/resume", `{"autoPause":true}`, api.SandboxPaused, true, nil, 400, ""},
		{"connect to one that cannot go on", "v2/connect", ``, api.SandboxPaused, false, conflict, 409, "connect 5m0s"},
		{"connect, and it is gone", "v2/connect", ``, api.SandboxPaused, false, api.Errorf(api.KindNotFound, "no row"), 404, "connect 5m0s"},
		{"connect, and the daemon stops", "v2/connect", ``, api.SandboxPaused, false, api.Errorf(api.KindUnavailable, "the daemon is stopping"), 503, "connect 5m0s"},
		{"connect, and it is broken", "v2/connect", ``, api.SandboxPaused, false, api.Errorf(api.KindInternal, "/secret/path"), 500, "connect 5m0s"},
		{"pause", "/pause", ``, api.SandboxRunning, false, nil, 204, "pause"},
		{"pause with memory", "/pause", `{"memory":true}`, api.SandboxRunning, false, nil, 204, "pause"},
		{"pause of files", "/pause", `{"memory":false}`, api.SandboxRunning, false, nil, 204, "pause files"},
		{"pause of one that is paused", "/pause", ``, api.SandboxPaused, false, nil, 409, ""},
		{"pause of one that is being paused", "/pause", ``, api.SandboxRunning, false, conflict, 409, "pause"},
		{"pause of one that has ended", "/pause", ``, api.SandboxEnded, false, nil, 404, ""},
		{"pause of one that is lost", "/pause", ``, api.SandboxLost, false, nil, 404, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.state, s.resumed, s.err, s.calls = c.state, c.resumed, c.err, nil
			path := "/sandboxes/" + id + c.path
			if rest, ok := strings.CutPrefix(c.path, "v2"); ok {
				path = "/v2/sandboxes/" + id + rest
			}
			r := w.ask(t, "POST", path, c.body)
			if r.status != c.status || strings.Join(s.calls, ", ") != c.calls || strings.Contains(r.body, "/secret") {
				t.Errorf("%d %s, and called %q; want %d, %q", r.status, r.body, s.calls, c.status, c.calls)
			}
		})
	}
}

// TestBuildID: the ID of a build is a UUID, the same each time, and another one for another snapshot.
func TestBuildID(t *testing.T) {
	a, b := api.NewSnapshotID(), api.NewSnapshotID()
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	if id := e2b.BuildID(a); !form.MatchString(id) || id != e2b.BuildID(a) || id == e2b.BuildID(b) {
		t.Errorf("%s of %s", id, a)
	}
}
