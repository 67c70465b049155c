package tally

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
)

// Bounds of the names that are kept apart. What comes after them is one name.
const (
	maxModels = 100
	maxNames  = 1000
	maxName   = 128
	others    = "(others)"
)

// replayed begins the name of a model that answers from a recording.
const replayed = "replay:"

// phases in the order of the work.
var phases = [...]string{"plan", "code", "create", "install", "compile", "run", "debug", "agent", "gate"}

// phaseOf is the phase in which a role works.
var phaseOf = map[string]string{"planner": "plan", "coder": "code", "debugger": "debug", "agent": "agent"}

// requirement is a package of a language, or a command.
type requirement struct {
	name string
	lang api.Language
}

// Tally adds up tasks. Make one with New.
type Tally struct {
	stats    admin.TaskStats
	attempts int // of verified requests for programs
	rounds   int // of verified requests about repositories
	programs int // verified requests for programs
	phases   map[string]*admin.PhaseTime
	failures map[api.Category]*admin.FailureCount
	models   map[string]*admin.ModelUse
	missing  map[requirement]int
}

// New makes a tally of the tasks since an instant, which it reports.
func New(since time.Time) *Tally {
	return &Tally{
		stats:    admin.TaskStats{Since: since, Outcomes: map[api.Outcome]int{}, Errors: map[api.Kind]int{}},
		phases:   map[string]*admin.PhaseTime{},
		failures: map[api.Category]*admin.FailureCount{},
		models:   map[string]*admin.ModelUse{},
		missing:  map[requirement]int{},
	}
}

// Add counts a task with its attempts.
func (y *Tally) Add(t api.Task) {
	y.stats.Tasks++
	if repeats(t) {
		y.stats.Replays++
		return
	}
	if t.Create.Request == "" {
		y.stats.Programs++
	} else {
		y.request(t)
		y.lessons(t)
	}
	if t.Outcome == api.OutcomeFailed && t.Error != nil {
		y.stats.Errors[t.Error.Kind]++
	}
	for _, c := range t.Calls {
		y.call(c)
	}
	if t.Repo != nil {
		y.repository(*t.Repo)
	}
	failed, lacked := map[api.Category]bool{}, map[requirement]bool{}
	for _, a := range t.Attempts {
		if a.Result != nil {
			y.result(t, a, failed, lacked)
		}
	}
	for w := range lacked {
		y.lack(w, 1)
	}
}

// repeats reports whether a task only did again what was done before.
func repeats(t api.Task) bool {
	if t.Create.Replay != nil {
		return true
	}
	for _, name := range []string{t.Model, t.Models.Planner, t.Models.Coder, t.Models.Debugger, t.Models.Large} {
		if strings.HasPrefix(name, replayed) {
			return true
		}
	}
	return false
}

func (y *Tally) request(t api.Task) {
	y.stats.Requests++
	if t.Create.Repo != nil {
		y.stats.Repositories++
	}
	if t.State != api.TaskDone {
		y.stats.Running++
		return
	}
	y.stats.Outcomes[t.Outcome]++
	switch {
	case t.Outcome != api.OutcomeVerified:
	case t.Create.Repo == nil:
		y.programs++
		y.attempts += len(t.Attempts)
	case t.Repo != nil:
		y.rounds += len(t.Repo.Rounds)
	}
}

// repository counts what a task on a repository did. It has rounds, and no
// attempts.
func (y *Tally) repository(r api.RepoResult) {
	gates := []*api.Gate{r.Before}
	for _, x := range r.Rounds {
		gates = append(gates, x.Gate, x.Original, x.Disguised, x.Mutant)
	}
	for _, g := range gates {
		if g != nil {
			y.spent("gate", 1, g.MS)
		}
	}
	if n := len(r.Rounds); n > 0 && r.Rounds[n-1].Stop != "" {
		if y.stats.Stops == nil {
			y.stats.Stops = map[api.StopReason]int{}
		}
		y.stats.Stops[r.Rounds[n-1].Stop]++
	}
}

func (y *Tally) call(c api.RoleCalls) {
	if phase := phaseOf[c.Role]; phase != "" {
		y.spent(phase, c.Calls, c.MS)
	}
	y.used(admin.ModelUse{Model: c.Model, Calls: c.Calls, Errors: c.Errors, MS: c.MS, Usage: c.Usage})
}

// lack counts tasks that wanted something. Names are bounded in number.
func (y *Tally) lack(w requirement, tasks int) {
	if _, known := y.missing[w]; known || len(y.missing) < maxNames {
		y.missing[w] += tasks
	}
}

// used counts what was asked of a model.
func (y *Tally) used(c admin.ModelUse) {
	name := api.Clip(c.Model, maxName)
	m := y.models[name]
	if m == nil {
		if len(y.models) >= maxModels {
			name = others
		}
		if m = y.models[name]; m == nil {
			m = &admin.ModelUse{Model: name}
			y.models[name] = m
		}
	}
	m.Calls += c.Calls
	m.Errors += c.Errors
	m.MS += c.MS
	m.Usage = m.Usage.Add(c.Usage)
}

func (y *Tally) spent(phase string, count int, ms int64) {
	p := y.phases[phase]
	if p == nil {
		p = &admin.PhaseTime{Phase: phase}
		y.phases[phase] = p
	}
	p.Count += count
	p.TotalMS += ms
}

// result counts an attempt that ended. failed and lacked are what the task was
// counted for already.
func (y *Tally) result(t api.Task, a api.Attempt, failed map[api.Category]bool, lacked map[requirement]bool) {
	r := a.Result
	if r.Phase != api.PhaseCheck {
		y.spent("create", 1, r.CreateMS)
	}
	if a.Artifact.Install != "" && r.Phase != api.PhaseCheck {
		y.spent("install", 1, r.InstallMS)
	}
	if a.Artifact.Compile != "" && r.CompileMS > 0 {
		y.spent("compile", 1, r.CompileMS)
	}
	if r.Phase == api.PhaseRun || r.Phase == api.PhaseVerify {
		y.spent("run", 1, r.RunMS)
	}
	if r.OK {
		return
	}
	f := y.failures[r.Category]
	if f == nil {
		f = &admin.FailureCount{Category: r.Category}
		y.failures[r.Category] = f
	}
	f.Attempts++
	if !failed[r.Category] {
		failed[r.Category] = true
		f.Tasks++
	}
	switch {
	case r.Missing != "" && r.Category == api.CategoryCommand:
		lacked[requirement{name: api.Clip(r.Missing, maxName)}] = true
	case r.Missing != "":
		lacked[requirement{api.Clip(r.Missing, maxName), a.Artifact.Language}] = true
	case r.Phase == api.PhaseInstall && t.Plan != nil:
		// A sandbox has no network, so what an installation would have fetched is
		// what has to be there before.
		for _, d := range t.Plan.Dependencies {
			if name := dependency(d); name != "" {
				lacked[requirement{name, t.Plan.Language}] = true
			}
		}
	}
}

// dependency is a package's name without a version.
func dependency(d string) string {
	d = strings.TrimSpace(d)
	// A scope begins with the sign that stands before a version elsewhere.
	if i := strings.IndexAny(d[min(1, len(d)):], "<>=!~;[@ ("); i >= 0 {
		d = d[:i+1]
	}
	return api.Clip(strings.TrimSpace(d), maxName)
}

// Stats returns what was counted so far.
func (y *Tally) Stats() admin.TaskStats {
	s := y.stats
	ended := 0
	for outcome, n := range s.Outcomes {
		if outcome != api.OutcomeCanceled && outcome != api.OutcomeAnswered {
			ended += n
		}
	}
	if ended > 0 {
		s.SuccessRate = float64(s.Outcomes[api.OutcomeVerified]) / float64(ended)
	}
	if y.programs > 0 {
		s.AttemptsPerSuccess = float64(y.attempts) / float64(y.programs)
	}
	if n := s.Outcomes[api.OutcomeVerified] - y.programs; n > 0 {
		s.RoundsPerSuccess = float64(y.rounds) / float64(n)
	}
	s.Stops = maps.Clone(s.Stops)
	if s.Lessons != nil {
		s.Lessons = new(*s.Lessons)
	}
	s.Phases, s.Failures, s.Models, s.Missing = []admin.PhaseTime{}, []admin.FailureCount{}, []admin.ModelUse{}, []admin.MissingCount{}
	for _, name := range phases {
		if p := y.phases[name]; p != nil {
			s.Phases = append(s.Phases, *p)
		}
	}
	for _, f := range y.failures {
		s.Failures = append(s.Failures, *f)
	}
	slices.SortFunc(s.Failures, func(a, b admin.FailureCount) int {
		return cmp.Or(b.Attempts-a.Attempts, cmp.Compare(a.Category, b.Category))
	})
	for _, m := range y.models {
		s.Models = append(s.Models, *m)
	}
	slices.SortFunc(s.Models, func(a, b admin.ModelUse) int { return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.Model, b.Model)) })
	for w, n := range y.missing {
		s.Missing = append(s.Missing, admin.MissingCount{Name: w.name, Language: w.lang, Tasks: n})
	}
	slices.SortFunc(s.Missing, func(a, b admin.MissingCount) int {
		return cmp.Or(b.Tasks-a.Tasks, cmp.Compare(a.Name, b.Name), cmp.Compare(a.Language, b.Language))
	})
	s.Missing = s.Missing[:min(len(s.Missing), admin.MaxMissing)]
	return s
}

// lessons counts a request that had a failure, with or without lessons of earlier tasks.
func (y *Tally) lessons(t api.Task) {
	passes, failed := len(t.Attempts), slices.ContainsFunc(t.Attempts, func(a api.Attempt) bool { return a.Result != nil && !a.Result.OK })
	if r := t.Repo; r != nil {
		passes = len(r.Rounds)
		failed = r.Before != nil && !r.Before.Passed ||
			slices.ContainsFunc(r.Rounds, func(x api.Round) bool { return x.Gate != nil && !x.Gate.Passed })
	}
	if !failed || t.State != api.TaskDone || t.Outcome == api.OutcomeCanceled {
		return
	}
	o := admin.Overcome{Tasks: 1}
	if t.Outcome == api.OutcomeVerified {
		o.Verified, o.Passes = 1, passes
	}
	var s admin.LessonStats
	if len(t.Lessons) > 0 {
		s.With, s.By = o, map[string]admin.Given{}
		for by, n := range t.LessonsBy {
			s.By[by] = admin.Given{Lessons: n, Verified: n * o.Verified}
		}
	} else {
		s.Without = o
	}
	y.addLessons(&s)
}

// addLessons adds counts; nil are none.
func (y *Tally) addLessons(s *admin.LessonStats) {
	if s == nil {
		return
	}
	if y.stats.Lessons == nil {
		y.stats.Lessons = &admin.LessonStats{}
	}
	add := func(to *admin.Overcome, from admin.Overcome) {
		to.Tasks += from.Tasks
		to.Verified += from.Verified
		to.Passes += from.Passes
	}
	add(&y.stats.Lessons.With, s.With)
	add(&y.stats.Lessons.Without, s.Without)
	if len(s.By) > 0 && y.stats.Lessons.By == nil {
		y.stats.Lessons.By = map[string]admin.Given{}
	}
	for by, n := range s.By {
		have := y.stats.Lessons.By[by]
		y.stats.Lessons.By[by] = admin.Given{Lessons: have.Lessons + n.Lessons, Verified: have.Verified + n.Verified}
	}
}
