package task

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/store"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/journal"
)

// busyFleet has nodes that take tasks whose request is "go". It implements Elsewhere.
type busyFleet struct{}

func (busyFleet) Leaves(_ context.Context, t api.Task) error {
	if t.Create.Request != "go" {
		return errors.New("no node takes it")
	}
	return nil
}

func (busyFleet) HandOver(context.Context, api.Task) error {
	return errors.New("nothing is handed over here")
}

func (busyFleet) Moved(context.Context, api.OwnerID) *api.TaskMove { return nil }

// TestStaying: what a node that drains says of each task that runs, in the order of their IDs; turns of sessions and tasks of plans are said with those.
func TestStaying(t *testing.T) {
	e := New(Config{Elsewhere: busyFleet{}})
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err == nil {
		t.Cleanup(func() { db.Close() })
		err = db.InsertOwner(t.Context(), store.Owner{ID: "me", StartedAt: time.Now()})
	}
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := journal.New(journal.Config{Rows: db, Owner: "me"}).Begin(t.Context(), "run", runKind, nil)
	if err != nil {
		t.Fatal(err)
	}
	none := journal.None(time.Now)
	on := func(r api.RepoTask) api.CreateTask { return api.CreateTask{Request: "go", Repo: &r} }
	for id, tt := range map[api.TaskID]struct {
		create  api.CreateTask
		session api.SessionID
		run     *journal.Run
	}{
		"1": {create: api.CreateTask{Request: "go"}}, "2": {create: on(api.RepoTask{})}, "3": {create: api.CreateTask{Request: "stay"}},
		"4": {create: api.CreateTask{Keep: true}, run: none}, "5": {create: api.CreateTask{Record: "file"}, run: none}, "6": {create: api.CreateTask{}, run: none},
		"7": {create: on(api.RepoTask{Best: &api.BestOf{}})}, "8": {create: on(api.RepoTask{Agent: "codex"})},
		"9": {create: on(api.RepoTask{}), session: "talk"}, "a": {create: on(api.RepoTask{Item: &api.ItemTask{}})}, "b": {create: on(api.RepoTask{Item: &api.ItemTask{Check: "c"}})},
	} {
		if tt.run == nil {
			tt.run = recorded
		}
		e.active.tasks[id] = &activeTask{task: api.Task{ID: id, Create: tt.create, Session: tt.session}, run: tt.run}
	}
	var got []string
	for _, s := range e.Staying(t.Context()) {
		got = append(got, string(s.ID)+map[bool]string{true: " after "}[s.Goes]+map[bool]string{false: ": "}[s.Goes]+s.Why)
	}
	want := "1 after its next step\n2 after the end of a round\n3: no node takes it\n4: its sandbox is kept\n5: it is recorded\n6: its steps are not recorded\n7: it has several candidates\n8: its agent is a program"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	// Items leave with their plan, which says so; its checks end.
	for id, leaves := range map[api.TaskID]bool{"1": true, "7": false, "9": false, "a": true, "b": false} {
		r := e.active.tasks[id]
		if got := e.leaves(r.task, r.run) != nil; got != leaves {
			t.Errorf("task %s can leave: %t", id, got)
		}
	}
}
