package cli

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// TestStopKeeping: whoever keeps sandboxes running reads for how long, if other nodes take over after that.
func TestStopKeeping(t *testing.T) {
	const warning = "sandboxes keep running for 10s: unless a daemon of node b has started again by then, other nodes declare them lost"
	for name, tt := range map[string]struct {
		info  admin.DaemonInfo
		args  []string
		warns bool
	}{
		"a node of several":  {admin.DaemonInfo{Node: "b", LeaseMS: 10_000, Sandboxes: 1}, []string{"--keep"}, true},
		"a node without any": {admin.DaemonInfo{Node: "b", LeaseMS: 10_000}, []string{"--keep"}, false},
		"the only node":      {admin.DaemonInfo{Node: "b", Sandboxes: 1}, []string{"--keep"}, false},
		"without --keep":     {admin.DaemonInfo{Node: "b", LeaseMS: 10_000, Sandboxes: 1}, []string{"--force"}, false},
	} {
		kept := false
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(tt.info) })
		mux.HandleFunc("POST /v1/stop", func(_ http.ResponseWriter, r *http.Request) { kept = r.URL.Query().Get("keep") == "1" })
		code, _, stderr := run(t, serving(t, mux), "", nil, append([]string{"daemon", "stop"}, tt.args...)...)
		if code != 0 || !strings.HasPrefix(stderr, "stopping\n") || strings.Contains(stderr, warning) != tt.warns || strings.Contains(stderr, "hortus fleet drain b") != tt.warns || kept != (tt.args[0] == "--keep") {
			t.Errorf("%s: %d, kept %v\n%s", name, code, kept, stderr)
		}
	}
}

// TestStopRefusing: a daemon that does not serve now, since its node has lost the database, can be stopped.
func TestStopRefusing(t *testing.T) {
	stopped := false
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(w).Encode(api.Problem{Status: http.StatusServiceUnavailable, Kind: api.KindUnavailable, Detail: "node b has not reached the database for 15s", RetryAfterMS: 3000})
	})
	mux.HandleFunc("POST /v1/stop", func(http.ResponseWriter, *http.Request) { stopped = true })
	if code, _, stderr := run(t, serving(t, mux), "", nil, "daemon", "stop", "--force"); code != 0 || !stopped || !strings.HasPrefix(stderr, "stopping\n") {
		t.Errorf("%d, stopped %v\n%s", code, stopped, stderr)
	}
}

// TestNodeColumn: lists of sandboxes and tasks say on which node each is, if there is a fleet.
func TestNodeColumn(t *testing.T) {
	for _, node := range []string{"", "b"} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/sandboxes", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode([]api.Sandbox{{ID: "s1", State: api.SandboxRunning, Template: "host", Node: node}})
		})
		mux.HandleFunc("GET /v1/tasks", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode([]api.Task{{ID: "t1", State: api.TaskRunning, Node: node}, {ID: "t2", State: api.TaskRunning}})
		})
		connect := serving(t, mux)
		for args, line := range map[string]string{"ps": `(?m)^task +t1 .* b +a program`, "task ls": `(?m)^t1 .* b +a program`} {
			code, stdout, stderr := run(t, connect, "", nil, strings.Fields(args)...)
			if code != 0 || strings.Contains(stdout, " NODE ") != (node != "") || node != "" && !regexp.MustCompile(line).MatchString(stdout) {
				t.Errorf("%s, node %q: %d %s\n%s", args, node, code, stderr, stdout)
			}
		}
	}
}
