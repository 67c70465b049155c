package task

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"hortus.dev/api"
	"hortus.dev/internal/agent"
)

// noReply is what to do with a task of an outcome that has no question.
var noReply = map[api.Outcome]string{
	api.OutcomeVerified: "See the result: hortus task show %s.",
	api.OutcomeDeclined: "Start a new task with another request or model. See why: hortus task show %s.",
	api.OutcomeCanceled: "Start a new task with the same request. See what was done: hortus task show %s.",
	api.OutcomeFailed:   "Start a new task when the cause is fixed: hortus task show %s.",
	api.OutcomeLost:     "Start a new task with the same request. See what was recorded: hortus task show %s.",
}

// Reply creates a task that continues one which ended with a question. The old row
// stays as it is. key is that of the caller. Errors: KindConflict for a task that has no
// open question, KindNotFound if its workspace was removed, KindInvalid for a reply that
// cannot be right.
func (e *Engine) Reply(ctx context.Context, id api.TaskID, key api.KeyID, req api.ReplyTask) (api.Task, error) {
	old, err := e.cfg.Store.Task(ctx, id)
	if err != nil {
		return api.Task{}, err
	}
	if err := repliable(old); err != nil {
		return api.Task{}, err
	}
	create, err := e.continued(ctx, old, req)
	if err != nil {
		return api.Task{}, err
	}
	earlier, err := e.chain(ctx, old)
	if err != nil {
		return api.Task{}, err
	}
	ms, err := e.lineup.of(create)
	if err != nil {
		return api.Task{}, err
	}
	t := api.Task{
		ID: api.NewTaskID(), State: api.TaskPending, Create: create, Continues: old.ID, Reply: req.Reply,
		Account: old.Account, Key: key, Owner: e.cfg.Owner, CreatedAt: e.cfg.Now().UTC(),
		EnvNames: old.EnvNames, Env: maps.Clone(old.Env), Model: ms.name(), Models: ms.names(),
	}
	t.Create.Sandbox.Key = key
	if create.Repo == nil {
		return t, e.start(ctx, t, ms, source{earlier: earlier})
	}
	ws := old.Repo.Workspace
	if err := e.cfg.Repositories.Adopt(ctx, ws, old.ID, t.ID); err != nil {
		if api.KindOf(err) == api.KindNotFound {
			err = api.Errorf(api.KindNotFound, "workspace %s of task %s was removed: the task cannot be continued", ws, old.ID).
				WithHint("Start a new task with the same request. Get the commits with: hortus task apply %s --branch.", old.ID)
		}
		return api.Task{}, err
	}
	if err := e.start(ctx, t, ms, source{earlier: earlier}); err != nil {
		t.Repo = &api.RepoResult{}
		e.handBack(ctx, t, earlier)
		return api.Task{}, err
	}
	return t, nil
}

// repliable refuses a task that has no open question, or nothing to continue from.
func repliable(t api.Task) error {
	switch {
	case t.Session != "":
		return api.Errorf(api.KindConflict, "task %s is a turn of session %s", t.ID, t.Session).WithHint("Say more to the session: hortus session send KEY \"TEXT\".")
	case t.State != api.TaskDone:
		return api.Errorf(api.KindConflict, "task %s is still running; it has no question yet", t.ID).
			WithHint("Wait until it ends, or stop it: hortus task cancel %s.", t.ID)
	case t.Outcome != api.OutcomeNeedsHuman:
		hint := noReply[t.Outcome]
		hint = cmp.Or(hint, "To see it: hortus task show %s.")
		return api.Errorf(api.KindConflict, "task %s ended as %s; it has no open question", t.ID, t.Outcome).WithHint(hint, t.ID)
	case t.Create.Request == "":
		return api.Errorf(api.KindConflict, "task %s ran a given program without a model: a reply has no effect", t.ID).
			WithHint("Change the program and run it again: hortus execute.")
	case t.Create.Repo != nil && (t.Repo == nil || t.Repo.Workspace == ""), t.Create.Repo == nil && (t.Plan == nil || len(t.Attempts) == 0):
		return api.Errorf(api.KindConflict, "task %s has no workspace to continue from", t.ID).WithHint("Start a new task with the same request.")
	}
	for _, name := range t.EnvNames {
		if _, ok := t.Env[name]; !ok {
			return api.Errorf(api.KindConflict, "cannot decrypt the environment values of task %s", t.ID).
				WithHint("Restore hortus.db-key in the data directory, or start a new task with its environment.")
		}
	}
	return nil
}

// continued is the request of the task that follows old.
func (e *Engine) continued(ctx context.Context, old api.Task, req api.ReplyTask) (api.CreateTask, error) {
	c := old.Create
	c.Sandbox.Account = old.Account // whose templates and secrets are meant
	var err error
	if c.Files, err = e.folders.inputsOf(old); err != nil {
		return c, err
	}
	switch {
	case strings.TrimSpace(req.Reply) == "":
		return c, api.Errorf(api.KindInvalid, "the reply is empty").WithHint("hortus task reply %s \"ANSWER\"", old.ID)
	case len(req.Reply) > MaxRequest || !utf8.ValidString(req.Reply) || strings.ContainsRune(req.Reply, 0):
		return c, api.Errorf(api.KindInvalid, "the reply is not UTF-8 text of at most %d bytes", MaxRequest)
	case c.Repo != nil && req.Attempts != 0:
		return c, api.Errorf(api.KindInvalid, "attempts are for programs; task %s is on a repository", old.ID).WithHint("Set the maximum number of rounds instead (--rounds).")
	case c.Repo == nil && (req.Rounds != 0 || req.Budget != (api.Budget{}) || req.TestsMayChange || req.LocksMayChange):
		return c, api.Errorf(api.KindInvalid, "rounds, budgets, testsMayChange and locksMayChange are for repositories; task %s runs a program", old.ID).WithHint("Set the maximum number of attempts instead (--attempts).")
	}
	// One file is one recording, and it is of the first task.
	c.Record = ""
	if req.Attempts != 0 {
		c.Attempts = req.Attempts
	}
	if c.Repo != nil {
		r := *c.Repo
		c.Repo = &r
		if r.Best != nil {
			// One agent continues the work of the chosen candidate, as it was and with its part of the budget.
			c = chosen(c, old)
			r = *c.Repo
			c.Repo = &r
		}
		if req.Rounds != 0 {
			r.Rounds = req.Rounds
		}
		r.TestsMayChange = r.TestsMayChange || req.TestsMayChange
		r.LocksMayChange = r.LocksMayChange || req.LocksMayChange
		r.Budget = merged(r.Budget, req.Budget)
		r.FilePolicy = api.FilePolicy{}
	}
	c, err = e.check(ctx, c)
	if err == nil && c.Repo != nil {
		// The workspace was made with it.
		c.Repo.FilePolicy = old.Create.Repo.FilePolicy
	}
	if err == nil && e.cfg.Check != nil {
		err = checkSandbox(ctx, e.cfg.Check, c)
	}
	return c, err
}

// merged is old with the fields of set that are not zero.
func merged(old, set api.Budget) api.Budget {
	if set.Steps != 0 {
		old.Steps = set.Steps
	}
	if set.Tokens != 0 {
		old.Tokens = set.Tokens
	}
	if set.CostUSD != 0 {
		old.CostUSD = set.CostUSD
	}
	if set.WallMS != 0 {
		old.WallMS = set.WallMS
	}
	if set.OutputBytes != 0 {
		old.OutputBytes = set.OutputBytes
	}
	return old
}

// chain lists the tasks that a reply to last continues, the oldest first. Rows that
// were removed since are left out.
func (e *Engine) chain(ctx context.Context, last api.Task) ([]api.Task, error) {
	all := []api.Task{last}
	for t := last; t.Continues != ""; {
		if len(all) == api.MaxReplies {
			return nil, api.Errorf(api.KindExhausted, "task %s was continued %d times, which is the maximum", all[0].ID, api.MaxReplies-1).
				WithHint("Start a new task with the complete request.")
		}
		var err error
		t, err = e.cfg.Store.Task(ctx, t.Continues)
		if api.KindOf(err) == api.KindNotFound {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.Reverse(all)
	return all, nil
}

// history is what a pipeline continues from.
func history(earlier []api.Task, reply string) agent.History {
	last := earlier[len(earlier)-1]
	h := agent.History{Plan: *last.Plan, Last: last.Attempts[len(last.Attempts)-1]}
	for i, t := range earlier {
		answer := reply
		if i+1 < len(earlier) {
			answer = earlier[i+1].Reply
		}
		h.Answers = append(h.Answers, api.Answer{Question: t.Question, Reply: answer})
		for _, a := range t.Attempts {
			h.Tried = append(h.Tried, a.Artifact)
		}
	}
	return h
}

// handBack returns the workspace of a task that ended before its agent began to the
// task that it continues, so that a person can reply to that one again.
func (e *Engine) handBack(ctx context.Context, t api.Task, earlier []api.Task) {
	if len(earlier) == 0 || len(t.Repo.Rounds) > 0 {
		return
	}
	last := earlier[len(earlier)-1]
	if err := e.cfg.Repositories.Adopt(context.WithoutCancel(ctx), last.Repo.Workspace, t.ID, last.ID); err != nil {
		e.cfg.Logger.Error("return workspace to its task", "workspace", last.Repo.Workspace, "task", last.ID, "err", err)
	}
}
