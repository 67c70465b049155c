package hook

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"hortus.dev/api"
	"hortus.dev/internal/repository/forge"
	"hortus.dev/internal/repository/forge/payload"
)

const (
	// maxAge is the age up to which an event starts something: GitHub sends one again for three days.
	maxAge = 72 * time.Hour
	// maxAhead is how far the clock of the forge may be ahead.
	maxAhead = time.Hour
	// keepEvents is how long events are kept, which is longer than maxAge, and keepRefused the number of those that were refused.
	keepEvents  = 30 * 24 * time.Hour
	keepRefused = 200
	// askTime bounds the question who may write: forges wait ten seconds for an answer.
	askTime = 8 * time.Second
	// maxText is the maximum size of the text of a person in a request, in bytes.
	maxText = 12 << 10
)

// refused is the answer to each request that is not signed with the secret of a hook, also if there is no such hook.
func refused() error {
	return api.Errorf(api.KindUnauthenticated, "there is no webhook with this address and this signing secret").WithHint("Compare both with hortus repo hook NAME at the daemon.")
}

// Receive takes a request of a forge. A request that starts nothing is no error: the answer says why.
func (s *Service) Receive(ctx context.Context, id api.RepositoryID, h http.Header, body []byte) (api.HookAnswer, error) {
	row, kind, secret := s.known(ctx, id)
	if !payload.Verify(kind, secret, h, body, s.cfg.Now()) || row.Hook == nil {
		return api.HookAnswer{}, refused()
	}
	e, err := payload.Parse(kind, h, body)
	if err != nil || e.Ignored != "" {
		return api.HookAnswer{Reason: e.Ignored}, err
	}
	a, why, err := s.read(row, e)
	if err != nil || why != "" {
		return api.HookAnswer{Reason: why}, err
	}
	before, err := s.cfg.Rows.HookEvent(ctx, id, a.cause)
	switch {
	case err == nil:
		return again(before), nil
	case api.KindOf(err) != api.KindNotFound:
		return api.HookAnswer{}, err
	}
	ctx = as(ctx, row)
	if why, err = s.mayStart(ctx, row, e.Sender); err != nil {
		return api.HookAnswer{}, err
	}
	// A forge that does not wait for the answer must not leave it in doubt whether the task starts.
	return s.start(context.WithoutCancel(ctx), row, a, why)
}

// known returns a repository with a hook and its secret, and otherwise a secret that nobody knows.
func (s *Service) known(ctx context.Context, id api.RepositoryID) (row api.Repository, kind, secret string) {
	row, err := s.cfg.Repositories.Get(ctx, id)
	if err != nil || row.State.Final() || row.Hook == nil {
		return api.Repository{}, forge.GitHub, s.nobody
	}
	secret, err = s.cfg.Secrets.Value(ctx, row.Account, SecretName(id))
	if err != nil {
		s.cfg.Logger.Error("the signing secret of a webhook cannot be read", "repository", id, "error", err, "fix", "hortus repo hook NAME --new-secret")
		return api.Repository{}, forge.GitHub, s.nobody
	}
	return row, row.Hook.Forge, secret
}

// asked is a request for a task.
type asked struct {
	event payload.Event
	cause string
	where forge.Location
	// text is what the task is to do.
	text string
}

// read finds out what an event asks for. why is the reason if that is nothing.
func (s *Service) read(row api.Repository, e payload.Event) (a asked, why string, err error) {
	h := *row.Hook
	a = asked{event: e, cause: e.Cause(h.Label)}
	if a.where, err = s.cfg.Locate(row.URL, h.Forge); err != nil {
		return a, "", err
	}
	if !strings.EqualFold(a.where.Path(), e.Repository) {
		return a, "", api.Errorf(api.KindDenied, "the event is of another repository than the one that is connected").WithHint("Use the webhook in %s; after a move, connect the new address.", a.where.Path())
	}
	age := s.cfg.Now().Sub(e.At)
	switch {
	case age > maxAge || age < -maxAhead:
		return a, "the event is older than 72 hours, or in the future", nil
	case e.Comment == 0 && !e.Has(h.Label):
		return a, "the label of the hook was not added", nil
	case e.Comment == 0:
		a.text = labelText(a, h.Label)
		return a, "", nil
	case forge.Answered(e.Text):
		return a, "Hortus wrote the comment itself", nil
	}
	text, ok := commandText(forge.Plain(e.Text), h.Command)
	if !ok {
		return a, "the comment does not begin with the command of the hook", nil
	}
	a.text = fmt.Sprintf("Issue %d of %s. ", e.Issue, e.Repository)
	if text == "" {
		a.text += fmt.Sprintf("%s asks in a comment to resolve it.", e.Sender.Login)
	} else {
		a.text += fmt.Sprintf("%s asks in a comment:\n\n%s", e.Sender.Login, bounded(text))
	}
	return a, "", nil
}

// commandText returns what follows the command at the beginning of a comment.
func commandText(text, command string) (string, bool) {
	rest, ok := strings.CutPrefix(text, command)
	if !ok || command == "" || rest != "" && !unicode.IsSpace([]rune(rest)[0]) {
		return "", false
	}
	return strings.TrimSpace(rest), true
}

// labelText is the request of an issue with a label. Another user may have written the issue, so what its page does not show is left out.
func labelText(a asked, label string) string {
	e := a.event
	by := ""
	if e.Author != "" {
		by = ", which " + e.Author + " wrote"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Resolve issue %d of %s: %s gave it the label %s. The lines that begin with > are its title and its text%s:\n\n", e.Issue, e.Repository, e.Sender.Login, label, by)
	for line := range strings.Lines(bounded(forge.Visible(e.Title) + "\n\n" + forge.Visible(e.Body))) {
		b.WriteString("> " + line)
	}
	return b.String()
}

// bounded cuts the text of a person.
func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "\n[truncated]"
}

// task is the task that is asked for.
func (a asked) task(row api.Repository, h api.RepositoryHook, usd float64) api.CreateTask {
	page := a.where.Web + "/" + a.where.Path()
	if a.where.Kind == forge.GitLab {
		page += "/-"
	}
	return api.CreateTask{
		Request: a.text, Model: h.Model, Sandbox: api.CreateSandbox{Account: row.Account},
		Repo: &api.RepoTask{
			URL: row.URL, Ref: row.Branch, Issue: fmt.Sprintf("%s/issues/%d", page, a.event.Issue), Agent: h.Agent, Push: true, MergeRequest: true,
			Author: api.Identity{Name: "Hortus", Email: "hortus@hortus.dev"}, Budget: api.Budget{CostUSD: usd},
		},
	}
}

// mayStart returns why a person may not start a task; empty for one who may. The list comes first: a stranger costs no request.
func (s *Service) mayStart(ctx context.Context, row api.Repository, p payload.Person) (why string, err error) {
	listed := slices.ContainsFunc(row.Hook.People, func(login string) bool { return strings.EqualFold(login, p.Login) })
	switch {
	case !listed:
		return "the person is not in the list of the hook", nil
	case p.Bot:
		return "the account is one of a program", nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	f, err := s.cfg.Forge(ctx, row.URL)
	var may bool
	if err == nil {
		may, err = f.MayWrite(ctx, p.Login, p.ID)
	}
	if err != nil {
		s.cfg.Logger.Error("a webhook cannot ask who may write", "repository", row.ID, "error", err, "fix", api.HintOf(err))
		return "", api.Errorf(api.KindUnavailable, "the forge does not say whether the person may write to the repository, so nothing was started").WithHint("Send the event again; the log of the daemon has the cause.")
	}
	if !may {
		return "the forge says that the person may not write to the repository", nil
	}
	return "", nil
}

// start stores a request and, unless there is a reason against it, creates its task.
func (s *Service) start(ctx context.Context, row api.Repository, a asked, why string) (api.HookAnswer, error) {
	e := api.HookEvent{
		Repository: row.ID, Cause: a.cause, At: s.now(), Sender: a.event.Sender.Login, Issue: a.event.Issue, State: api.HookRefused, Reason: why,
	}
	e.URL = a.task(row, *row.Hook, 0).Repo.Issue
	e, first, err := s.store(ctx, row, e)
	if api.KindOf(err) == api.KindExists {
		before, err := s.cfg.Rows.HookEvent(ctx, row.ID, a.cause)
		return again(before), err
	}
	if err != nil {
		return api.HookAnswer{}, err
	}
	s.append(ctx, api.EventHookReceived, e)
	if e.State == api.HookRefused {
		if first {
			s.goes(func(ctx context.Context) { s.tell(as(ctx, row), row, &e, forge.OverBudget(e.Reason)) })
		}
		return api.HookAnswer{Reason: e.Reason}, nil
	}
	if _, err := s.cfg.Engine.CreateAs(ctx, e.Task, a.task(row, *row.Hook, e.BudgetUSD)); err != nil {
		s.cfg.Logger.Error("a webhook cannot start a task", "repository", row.ID, "error", err, "fix", api.HintOf(err))
		e.State, e.Task, e.Reason = api.HookRefused, "", "the task could not be started: "+err.Error()
		s.update(ctx, api.EventHookReceived, e)
		return api.HookAnswer{Reason: e.Reason}, nil
	}
	e.State = api.HookStarted
	s.update(ctx, api.EventHookStarted, e)
	s.goesOnce(row, e)
	return api.HookAnswer{Task: e.Task}, nil
}

// store stores a request, with a task unless there is a reason against it or the budget of the day is used up. first is true for the first
// request of the day beyond the budget.
func (s *Service) store(ctx context.Context, row api.Repository, e api.HookEvent) (_ api.HookEvent, first bool, err error) {
	unlock, err := s.starts.Lock(ctx, string(row.ID))
	if err != nil {
		return e, false, err
	}
	defer unlock()
	if e.Reason == "" {
		if e.Reason, e.BudgetUSD, first, err = s.budget(ctx, row); err != nil {
			return e, false, err
		}
		e.OverBudget = e.Reason != ""
	}
	if e.Reason == "" {
		e.State, e.Task = api.HookStarting, api.NewTaskID()
	}
	return e, first, s.cfg.Rows.InsertHookEvent(ctx, e, e.At.Add(-keepEvents), keepRefused)
}

// again is the answer to an event that was received before.
func again(e api.HookEvent) api.HookAnswer {
	return api.HookAnswer{Task: e.Task, Reason: "the event was received before and starts nothing again"}
}

// day is the beginning of the current day in UTC.
func (s *Service) day() time.Time { return s.now().Truncate(24 * time.Hour) }

// budget returns what a task of a repository may cost now, 0 for no limit, or why none may start.
func (s *Service) budget(ctx context.Context, row api.Repository) (why string, usd float64, first bool, err error) {
	h := *row.Hook
	tasks, spent, err := s.spent(ctx, row.ID)
	if err != nil {
		return "", 0, false, err
	}
	most := h.TasksPerDay
	if most == 0 && h.USDPerDay == 0 {
		most = api.DefaultHookTasks
	}
	left := h.USDPerDay - spent
	switch {
	case most > 0 && tasks >= most:
		why = fmt.Sprintf("the budget of %d tasks of this day is used up", most)
	case h.USDPerDay > 0 && left <= 0:
		why = fmt.Sprintf("the budget of %.2f US dollars of this day is used up", h.USDPerDay)
	case h.USDPerDay == 0:
		return "", h.USDPerTask, false, nil
	case h.USDPerTask == 0:
		return "", left, false, nil
	default:
		return "", min(left, h.USDPerTask), false, nil
	}
	all, err := s.cfg.Rows.HookEventsOf(ctx, row.ID, s.day(), 0)
	first = !slices.ContainsFunc(all, func(e api.HookEvent) bool { return e.OverBudget })
	return why, 0, first, err
}

// spent is what counts against the budgets of this day: a task that has not ended, or whose cost is not known, counts with its budget.
func (s *Service) spent(ctx context.Context, id api.RepositoryID) (tasks int, usd float64, err error) {
	all, err := s.cfg.Rows.HookEventsOf(ctx, id, s.day(), 0)
	if err != nil {
		return 0, 0, err
	}
	for _, e := range all {
		if e.Task == "" {
			continue
		}
		tasks++
		t, err := s.cfg.Task(ctx, e.Task)
		switch {
		case err != nil && api.KindOf(err) != api.KindNotFound:
			return 0, 0, err
		case err == nil && t.State == api.TaskDone && t.Usage.Unpriced == 0:
			usd += t.Usage.CostUSD
		default:
			usd += max(e.BudgetUSD, t.Usage.CostUSD)
		}
	}
	return tasks, usd, nil
}
