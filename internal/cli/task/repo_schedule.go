package task

import (
	"fmt"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/flags"
	"hortus.dev/internal/cli/human"
)

// every is the interval of a schedule; 0 is "never".
type every time.Duration

// UnmarshalText reads an interval of at least a minute, or "never".
func (e *every) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*e = 0
		return nil
	}
	var d flags.Span
	if err := d.UnmarshalText(text); err != nil {
		return err
	}
	*e = every(d)
	return api.RepositorySchedule{PrepareEveryMS: max(1, time.Duration(d).Milliseconds())}.Check()
}

// milliseconds is the interval as the API takes it; 0 for nil.
func (e *every) milliseconds() int64 {
	if e == nil {
		return 0
	}
	return time.Duration(*e).Milliseconds()
}

type repoSetCmd struct {
	Name  string `arg:"" complete:"connected" help:"Name of the repository, its ID, or a unique prefix of that."`
	Every *every `name:"prepare-every" required:"" placeholder:"6h" help:"Interval at which the daemon fetches the repository and prepares what is new (minimum 1m), or never."`
}

// Run changes a connected repository.
func (c *repoSetCmd) Run(ctx app.Context, a *app.App) error {
	a.NeedForges = true
	cl, err := a.Client(ctx)
	if err != nil {
		return err
	}
	r, err := cl.Repositories.Schedule(ctx, c.Name, time.Duration(*c.Every))
	if err != nil {
		return app.Missing(err, "hortus repo ls")
	}
	if a.Flags.JSON {
		return a.JSON(r)
	}
	if r.PrepareEveryMS == 0 {
		a.Note("%s is not prepared by itself any more", r.Name)
	} else {
		a.Note("%s is prepared every %s, while the daemon runs; to see the result: hortus repo show %s", r.Name, interval(r.PrepareEveryMS), r.Name)
	}
	return nil
}

// interval is a duration without its zero minutes and seconds: "6h".
func interval(ms int64) string {
	text := (time.Duration(ms) * time.Millisecond).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-len(zero)+1]
		}
	}
	return text
}

// preparation says how the automatic preparation of a repository stands; "" if there is none. An
// error is cut after most bytes.
func preparation(r api.Repository, now time.Time, most int) string {
	ago := func(t time.Time) string { return human.Duration(max(0, now.Sub(t)).Truncate(time.Second)) + " ago" }
	p := r.Preparation
	switch {
	case p == nil:
		return ""
	case p.Running:
		return "running, started " + ago(p.StartedAt)
	case p.Requested:
		return "requested"
	case p.Error != nil:
		text := fmt.Sprintf("failed %s: %s", ago(p.EndedAt), human.Truncate(p.Error.Message, most))
		if !p.NextAt.IsZero() {
			text += "; next at " + p.NextAt.Format(time.RFC3339)
		}
		return text
	case !p.PreparedAt.IsZero():
		return fmt.Sprintf("prepared %s at %.7s", ago(p.PreparedAt), human.Sanitize(p.Commit))
	case !p.NextAt.IsZero():
		return "waiting"
	}
	return ""
}

// showPreparation shows the automatic preparation of a repository.
func showPreparation(r api.Repository, row func(name, value string)) {
	p := r.Preparation
	if p == nil {
		return
	}
	if r.PrepareEveryMS > 0 {
		row("prepare every", interval(r.PrepareEveryMS))
	}
	row("preparation", preparation(r, time.Now(), 300))
	if p.Error != nil {
		row("help", p.Error.Hint)
		if !p.PreparedAt.IsZero() {
			row("last success", fmt.Sprintf("%s at %.7s", p.PreparedAt.Format(time.RFC3339), p.Commit))
		}
	}
	row("preparation task", string(p.Task))
	if !p.NextAt.IsZero() {
		row("next preparation", p.NextAt.Format(time.RFC3339))
	}
}
