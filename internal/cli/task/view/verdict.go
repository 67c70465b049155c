package view

import (
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/cli/progress"
)

// showMade reports which files a program made, and which of them are not kept.
func (p *Progress) showMade(r api.ExecutionResult) {
	if len(r.OutputFiles) > 0 {
		var made []string
		for i, f := range r.OutputFiles {
			if i == 8 {
				made = append(made, "and more")
				break
			}
			made = append(made, f.Path+" ("+human.Size(int64(len(f.Bytes())))+")")
		}
		p.Line("", "", "files made: "+strings.Join(made, ", "))
	}
	for _, left := range r.LeftOut {
		p.Line("", progress.Yellow, "not saved: "+left)
	}
}

// ReplyHint is the command that answers the question of a task.
func ReplyHint(id api.TaskID) string {
	return `hortus task reply ` + human.Sanitize(string(id)) + ` "ANSWER"`
}

// answerable shows the command that answers the question of a task, if it has one.
func (p *Progress) answerable(t api.Task) {
	if t.Outcome == api.OutcomeNeedsHuman && t.Question != "" && t.Create.Request != "" {
		p.Always("reply: ", ReplyHint(t.ID))
	}
}

// Delivered reports whether the delivery that was requested happened, or there was
// nothing to deliver.
func Delivered(t api.Task, request bool) bool {
	if t.Repo == nil || t.Repo.Head == "" {
		return true
	}
	done := func(d *api.Delivery) bool {
		return d != nil && d.Error == nil && len(d.Refused) == 0 && (d.URL != "" || !request)
	}
	if len(t.Repo.Repositories) == 0 {
		return done(t.Repo.Delivery)
	}
	return !slices.ContainsFunc(t.Repo.Repositories, func(r api.RepositoryResult) bool { return r.Head != "" && !done(r.Delivery) })
}
