package access_test

import (
	"context"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/quota"
	"hortus.dev/internal/server/access"
)

// replied is an engine with one task, which counts the replies.
type replied struct {
	access.Engine
	row api.Task
	n   int
}

// backends has one that does not isolate.
type backends struct{}

func (backends) Isolates(_ context.Context, isolation string) (bool, error) {
	return isolation != "process", nil
}

func (r *replied) Get(context.Context, api.TaskID) (api.Task, error) { return r.row, nil }

func (r *replied) Reply(context.Context, api.TaskID, api.KeyID, api.ReplyTask) (api.Task, error) {
	r.n++
	return api.Task{}, nil
}

// Only the task's own account replies, and only with the rights that its creation takes.
func TestReplyIsForTheOwnAccount(t *testing.T) {
	program := api.Task{ID: api.NewTaskID(), Account: "a", Create: api.CreateTask{Request: "r", Model: "offline"}}
	onRepo, unwalled, onDirectory := program, program, program
	onDirectory.Account = "" // over the socket
	onDirectory.Create.Repo = &api.RepoTask{URL: "/home/ada/r"}
	onRepo.Create.Repo = &api.RepoTask{URL: "https://host/r"}
	unwalled.Create.Sandbox.Isolation = "process"
	user := func(account string) api.Principal {
		return api.Principal{Role: api.RoleUser, Account: account, Key: "k"}
	}
	administrator := func(account string) api.Principal {
		return api.Principal{Role: api.RoleAdmin, Account: account, Key: "k"}
	}
	for _, c := range []struct {
		name string
		row  api.Task
		who  api.Principal
		kind api.Kind
	}{
		{"its own account", program, user("a"), ""}, // the control: the same call reaches the engine
		{"another account", program, user("b"), api.KindNotFound},
		{"an administrator of another account", program, administrator("b"), api.KindDenied},
		{"the operator", program, api.Operator(), api.KindDenied},
		{"a user on a repository", onRepo, user("a"), api.KindDenied},
		{"an administrator on a repository", onRepo, administrator("a"), ""},
		{"the operator's browser on a directory", onDirectory, administrator(""), ""},
		{"another administrator on a directory", onDirectory, administrator("a"), api.KindDenied},
		{"a user without walls", unwalled, user("a"), api.KindDenied},
	} {
		e := &replied{row: c.row}
		_, err := access.NewTasks(e, backends{}, quota.NewRates(quota.RatesConfig{})).Reply(api.WithPrincipal(t.Context(), c.who), c.row.ID, api.ReplyTask{Reply: "yes"})
		want := 0
		if c.kind == "" {
			want = 1
		}
		if err == nil && c.kind != "" || err != nil && api.KindOf(err) != c.kind || e.n != want {
			t.Errorf("%s: %v, %d replies reached the engine; want %q", c.name, err, e.n, c.kind)
		}
	}
	// The control: the operator's browser begins nothing on a directory.
	_, err := access.NewTasks(&replied{}, backends{}, quota.NewRates(quota.RatesConfig{})).Create(api.WithPrincipal(t.Context(), administrator("")), onDirectory.Create)
	if api.KindOf(err) != api.KindDenied {
		t.Errorf("a new task on a directory: %v", err)
	}
}
