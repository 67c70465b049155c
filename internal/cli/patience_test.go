package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
	httpapi "hortus.dev/internal/server/http"
)

// away is what a node without its database answers.
func away() *api.Error {
	e := api.Errorf(api.KindUnavailable, "node c has not reached the database for 15s").WithHint("ask another node")
	e.RetryAfterMS = 1
	return e
}

// TestFollowersWait: a command that follows a task says that it waits for a daemon, and has the outcome in the end.
func TestFollowersWait(t *testing.T) {
	task := api.Task{ID: "t4f2a000000000000000", State: api.TaskDone, Outcome: api.OutcomeVerified}
	asked := map[string]int{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(admin.DaemonInfo{Settings: admin.DaemonSettings{IdleMS: new(int64(-1))}}) // it never stops by itself
	})
	mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(task) })
	mux.HandleFunc("GET /v1/tasks/{id}", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(task) })
	mux.HandleFunc("GET /v1/tasks/{id}/attempts/", func(http.ResponseWriter, *http.Request) {}) // no output
	mux.HandleFunc("GET /v1/tasks/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		if asked[r.PathValue("id")]++; asked[r.PathValue("id")]%2 == 1 {
			httpapi.Refuse(w, away())
			return
		}
		fmt.Fprintf(w, "data: {\"seq\":1,\"type\":%q}\n\n", api.EventTaskFinished)
	})
	connect := serving(t, mux)
	for _, args := range [][]string{{"task", "watch", string(task.ID)}, {"run", "--model", "offline", "print 1"}} {
		code, _, stderr := runIn(t, nil, connect, "", nil, args...)
		waits, back := strings.Index(stderr, "trying again for up to 3m0s: node c has not reached the database for 15s"), strings.Index(stderr, "a daemon serves this again")
		if code != 0 || waits < 0 || back < waits {
			t.Errorf("%v: %d\n%s", args, code, stderr)
		}
	}
}

// TestFollowersOfStartedDaemon: a command does not wait for a daemon that only the next command starts, or that died before it said which it is. It names that command.
func TestFollowersOfStartedDaemon(t *testing.T) {
	for name, info := range map[string]http.HandlerFunc{
		"started": func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(admin.DaemonInfo{Settings: admin.DaemonSettings{IdleMS: new(int64(3000))}})
		},
		"dead": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/info", info)
		mux.HandleFunc("POST /v1/tasks", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(api.Task{ID: "t4f2a000000000000000"})
		})
		mux.HandleFunc("GET /v1/tasks/{id}/events", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		code, _, stderr := runIn(t, nil, serving(t, mux), "", nil, "run", "--model", "offline", "print 1")
		if code != 5 || strings.Contains(stderr, "trying again") || !strings.HasSuffix(stderr, "\n  next: hortus task watch 4f2a\n") {
			t.Errorf("%s: %d\n%s", name, code, stderr)
		}
	}
}

// TestUnfollowed: what cannot be followed has another exit code than what failed, and the command that follows it again.
func TestUnfollowed(t *testing.T) {
	var f *app.Failure
	if err := app.Unfollowed(away(), "hortus task watch 4f2a"); !errors.As(err, &f) || f.Code != 5 || api.HintOf(err) != "hortus task watch 4f2a" ||
		err.Error() != "what became of it is not known: node c has not reached the database for 15s" {
		t.Errorf("%v, next: %s", err, api.HintOf(err))
	}
	denied := api.Errorf(api.KindDenied, "no")
	if err := app.Unfollowed(denied, "x"); err != error(denied) {
		t.Error(err)
	}
	if err := app.Unfollowed(nil, "x"); err != nil {
		t.Error(err)
	}
}

// TestStatusOfRefusingDaemon: a daemon that answers runs, whatever it answers.
func TestStatusOfRefusingDaemon(t *testing.T) {
	connect := serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { httpapi.Refuse(w, away()) }))
	code, stdout, stderr := runIn(t, nil, connect, "", nil, "daemon", "status", "--data-dir", "/d")
	if code != 1 || stdout != "running, /d, and does not serve now: node c has not reached the database for 15s\n" || stderr != "next: ask another node\n" {
		t.Errorf("%d\n%s\n%s", code, stdout, stderr)
	}
	if code, stdout, _ := runIn(t, nil, connect, "", nil, "daemon", "status", "--data-dir", "/d", "--json"); code != 1 || !strings.Contains(stdout, `"running": true`) || !strings.Contains(stdout, `"kind": "unavailable"`) {
		t.Errorf("%d\n%s", code, stdout)
	}
}
