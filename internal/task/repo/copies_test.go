package repo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/internal/agent/loop"
	"hortus.dev/internal/agent/model"
	"hortus.dev/internal/store/database"
	"hortus.dev/internal/task/repo"
)

// Copy implements repo.Copier.
func (l *local) Copy(ctx context.Context, task api.TaskID, of repo.Sandbox, p repo.Preparation) (repo.Sandbox, error) {
	if l.refuse != nil {
		return nil, l.refuse
	}
	id, err := l.Fork(ctx, task, of.Info().Workspace)
	if err != nil {
		return nil, err
	}
	return l.Open(ctx, p.Sandbox, id, p.Access)
}

// Copy implements repo.Copier.
func (d disk) Copy(ctx context.Context, task api.TaskID, of repo.Sandbox, p repo.Preparation) (repo.Sandbox, error) {
	id, err := d.Fork(ctx, task, of.Info().Workspace)
	if err != nil {
		return nil, err
	}
	return d.Open(ctx, p.Sandbox, id, p.Access)
}

// sweep removes the workspaces that no row names, as a daemon does when it starts.
func (d disk) sweep(ctx context.Context, db *database.DB) error {
	rows, _, err := db.TaskPage(ctx, "", false, api.PageRequest{Limit: api.MaxPage})
	if err != nil {
		return err
	}
	named := map[api.WorkspaceID]bool{}
	for _, t := range rows {
		if t.Repo == nil {
			continue
		}
		named[t.Repo.Workspace] = true
		for _, id := range t.Repo.Copies {
			named[api.WorkspaceID(id)] = true
		}
		for _, c := range t.Repo.Candidates {
			named[api.WorkspaceID(c.Workspace)] = true
		}
	}
	for id := range d.spaces {
		if !named[id] {
			if err := d.Discard(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// inCopy asks a sub-agent to do something in a copy.
func inCopy(what string) call {
	return call{"research", map[string]any{"question": what, "copy": true}}
}

// team is a model for an agent and its sub-agents: their calls follow each other, those of one answer together.
type team map[string][][]call

func (team) Name() string { return "team" }

func (m team) Generate(_ context.Context, req model.Request, _ func(model.Delta)) (model.Response, error) {
	name, sub := strings.CutPrefix(req.Messages[0].Text, "Task:\n")
	if !sub {
		name = "agent"
	}
	n := 0
	for _, msg := range req.Messages {
		if msg.Role == model.RoleAssistant {
			n++
		}
	}
	msg := model.Message{Role: model.RoleAssistant}
	for i, c := range m[name][n] {
		in, err := json.Marshal(c.input)
		if err != nil {
			return model.Response{}, err
		}
		msg.Calls = append(msg.Calls, model.Call{ID: fmt.Sprint("c", n, "-", i), Name: c.tool, Input: in})
	}
	return model.Response{Message: msg, Stop: model.StopTools, Usage: api.Usage{Requests: 1, InputTokens: 100}}, nil
}

// says ends a sub-agent with an answer.
func says(text string) []call { return []call{{"finish", map[string]any{"summary": text}}} }

// transcript reads that of the newest task.
func transcript(t *testing.T, b *bench) (all []loop.Entry) {
	t.Helper()
	f, err := os.Open(repo.TranscriptPath(b.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := loop.ReadTranscript(f, func(e loop.Entry) error { all = append(all, e); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// results are what the agent read, in the order of its calls.
func results(t *testing.T, b *bench) (out []string) {
	t.Helper()
	for _, e := range transcript(t, b) {
		if e.Agent == "" && e.Tool != "" {
			out = append(out, e.Text)
		}
	}
	return out
}

// TestCopies: two sub-agents work at the same time, each in a copy that begins as the sandbox of the agent is. Nothing that they do is in
// another one; the file policy counts there too; and nothing of them is left.
func TestCopies(t *testing.T) {
	t.Parallel()
	meet := func(mine, other string) []call {
		return []call{sh(fmt.Sprintf(`echo %s >> note; touch ../at-%s; for i in $(seq 1000); do [ -e ../at-%s ] && break; sleep 0.01; done; [ -e ../at-%s ] && cat note`, mine, mine, other, other)),
			{"create", map[string]any{"path": "off/limits", "content": "x"}}}
	}
	b := newBench(t, nowhere{})
	m := team{
		"agent": {{sh("echo agent > note")}, {inCopy("one"), inCopy("two")}, {sh("cat note; ls -d own* 2>/dev/null; " + mend)}, {finish()}},
		"one":   {meet("one", "two"), {sh("touch own-one; cat note")}, says("Found one.")},
		"two":   {meet("two", "one"), {sh("touch own-two; cat note")}, says("Found two.")},
	}
	end, _ := b.do(t.Context(), m, api.RepoTask{URL: makeRepo(t, sum), FilePolicy: api.FilePolicy{OffLimits: []string{"off/**"}}})
	if end.Outcome != api.OutcomeVerified {
		t.Fatalf("%+v", end)
	}
	got := results(t, b)
	if len(got) != 5 || got[1] != "Found one." || got[2] != "Found two." || !strings.HasPrefix(got[3], "agent\n[exit code") {
		t.Errorf("%q", got)
	}
	all := map[string][]string{}
	for _, e := range transcript(t, b) {
		if e.Tool != "" {
			all[e.Agent] = append(all[e.Agent], e.Text)
		}
	}
	for n, name := range []string{"one", "two"} {
		list := all[fmt.Sprint("research ", n+1)]
		if len(list) != 4 || !strings.HasPrefix(list[0], "agent\n"+name+"\n[exit code 0]") || !strings.Contains(list[1], "off limits") || !strings.HasPrefix(list[2], "agent\n"+name+"\n") {
			t.Errorf("%s: %q", name, list)
		}
	}
	if n := len(b.sandboxes.spaces); n != 1 {
		t.Errorf("%d workspaces are left", n)
	}
	most := 0
	for _, r := range b.stored {
		most = max(most, len(r.Copies))
	}
	if most != 2 || len(end.Result.Copies) != 0 {
		t.Errorf("the row named %d copies, and %v in the end", most, end.Result.Copies)
	}
	if end.Usage.Requests != 10 {
		t.Errorf("%+v", end.Usage)
	}
}

// TestCopyRefused: an agent whose sandbox cannot be copied is told, and goes on.
func TestCopyRefused(t *testing.T) {
	b := newBench(t, nowhere{})
	m := team{
		"agent": {{sh("true")}, {inCopy("one")}, {sh(mend)}, {finish()}},
	}
	b.sandboxes.refuse = api.Errorf(api.KindExhausted, "no room for a sandbox").WithHint("Wait.")
	if end, _ := b.do(t.Context(), m, api.RepoTask{URL: makeRepo(t, sum)}); end.Outcome != api.OutcomeVerified {
		t.Fatalf("%+v", end)
	}
	if got := results(t, b); got[1] != "The sandbox could not be copied: no room for a sandbox. Wait. Ask without copy, or run the commands yourself." {
		t.Errorf("%q", got)
	}
}

// ended looks at a task whose sub-agents worked in copies: they went on in them after a kill, and nothing of them is left.
func (s survival) ended(t *testing.T, row api.Task, kills int) {
	t.Helper()
	sandboxes, err := newDisk(s.dir + "/boxes")
	if err != nil {
		t.Fatal(err)
	}
	if len(sandboxes.spaces) != 1 || len(row.Repo.Copies) != 0 {
		t.Errorf("%d workspaces are left, and the row names %v", len(sandboxes.spaces), row.Repo.Copies)
	}
	log := s.log(t)
	for _, name := range []string{"one", "two"} {
		// A kill at a write of one may cut a call of the other.
		if n := log["tool copy "+name]; n < 1 || n > 1+kills {
			t.Errorf("the call of %s was executed %d times", name, n)
		}
	}
}

// TestSurvivesCopies kills around sub-agents that work in copies at the same time. Each goes on in its copy.
func TestSurvivesCopies(t *testing.T) {
	t.Parallel()
	newSurvival(t, copies).end(t, 0)
	killedAt(t, copies, points(t, 14, 54, 6), once) // as in TestSurvivesReads
}
