package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
)

// ShowStats prints the statistics of tasks.
func ShowStats(a *app.App, s admin.TaskStats) error {
	when := "so far"
	if !s.Since.IsZero() {
		when = "since " + s.Since.Local().Format("2006-01-02 15:04")
	}
	if s.Tasks == 0 {
		_, err := fmt.Fprintf(a.Env.Stdout, "No task %s. Make the first with: hortus run \"print the first 20 prime numbers\"\n", when)
		return err
	}
	w := a.Table()
	fmt.Fprintf(w, "tasks\t%d %s%s\n", s.Tasks, when, human.JoinNonEmpty(": ", human.Count(s.Requests-s.Repositories, "request"), repositories(s.Repositories), human.Count(s.Programs, "program"), human.Count(s.Replays, "replay")))
	if n := ended(s); n > 0 {
		fmt.Fprintf(w, "verified\t%d of %d (%.0f%%)\n", s.Outcomes[api.OutcomeVerified], n, 100*s.SuccessRate)
	}
	var rest []string
	for _, o := range slices.Sorted(maps.Keys(s.Outcomes)) {
		if o != api.OutcomeVerified {
			rest = append(rest, fmt.Sprintf("%d %s", s.Outcomes[o], human.Sanitize(strings.ReplaceAll(string(o), "_", " "))))
		}
	}
	if s.Running > 0 {
		rest = append(rest, fmt.Sprintf("%d running", s.Running))
	}
	if len(rest) > 0 {
		fmt.Fprintf(w, "others\t%s\n", strings.Join(rest, ", "))
	}
	if s.AttemptsPerSuccess > 0 {
		fmt.Fprintf(w, "attempts\t%.1f for each that was verified\n", s.AttemptsPerSuccess)
	}
	if s.RoundsPerSuccess > 0 {
		fmt.Fprintf(w, "rounds\t%.1f for each on a repository that was verified\n", s.RoundsPerSuccess)
	}
	showLessons(w, s.Lessons)
	var stops []string
	for _, r := range slices.Sorted(maps.Keys(s.Stops)) {
		stops = append(stops, fmt.Sprintf("%d %s", s.Stops[r], human.Sanitize(stopText(r))))
	}
	if len(stops) > 0 {
		fmt.Fprintf(w, "agents\t%s\n", strings.Join(stops, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, show := range []func(io.Writer, admin.TaskStats){showPhases, showFailures, showModelUse} {
		show(w, s)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	showMissing(a.Env.Stdout, s)
	return nil
}

// showLessons compares requests with a failure that were given lessons with those that were not.
func showLessons(w io.Writer, s *admin.LessonStats) {
	if s == nil {
		return
	}
	for _, row := range []struct {
		name string
		o    admin.Overcome
	}{{"failed first, with lessons", s.With}, {"failed first, without", s.Without}} {
		if row.o.Tasks == 0 {
			continue
		}
		text := fmt.Sprintf("%d of %d verified (%.0f%%)", row.o.Verified, row.o.Tasks, 100*float64(row.o.Verified)/float64(row.o.Tasks))
		if row.o.Verified > 0 {
			text += fmt.Sprintf(", after %.1f attempts or rounds", float64(row.o.Passes)/float64(row.o.Verified))
		}
		fmt.Fprintf(w, "%s\t%s\n", row.name, text)
	}
	for _, by := range slices.Sorted(maps.Keys(s.By)) {
		n := s.By[by]
		fmt.Fprintf(w, "lessons by %s\t%d given, %d of them to requests that were verified\n", human.Sanitize(by), n.Lessons, n.Verified)
	}
}

// ended counts the requests that the share of verified ones is taken of.
func ended(s admin.TaskStats) (n int) {
	for o, k := range s.Outcomes {
		if o != api.OutcomeCanceled {
			n += k
		}
	}
	return n
}

func showPhases(w io.Writer, s admin.TaskStats) {
	if len(s.Phases) == 0 {
		return
	}
	fmt.Fprintf(w, "\nTIME\tCOUNT\tTOTAL\tMEAN\n")
	for _, p := range s.Phases {
		total := time.Duration(p.TotalMS) * time.Millisecond
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", human.Sanitize(p.Phase), p.Count, human.Duration(total), human.Duration(total/time.Duration(max(p.Count, 1))))
	}
}

func showFailures(w io.Writer, s admin.TaskStats) {
	if len(s.Failures)+len(s.Errors) == 0 {
		return
	}
	fmt.Fprintf(w, "\nFAILURE\tATTEMPTS\tTASKS\n")
	for _, f := range s.Failures {
		fmt.Fprintf(w, "%s\t%d\t%d\n", human.Sanitize(string(f.Category)), f.Attempts, f.Tasks)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Errors)) {
		fmt.Fprintf(w, "error: %s\t\t%d\n", human.Sanitize(string(k)), s.Errors[k])
	}
}

func showModelUse(w io.Writer, s admin.TaskStats) {
	if len(s.Models) == 0 {
		return
	}
	fmt.Fprintf(w, "\nMODEL\tCALLS\tERRORS\tTIME\tINPUT\tCACHED\tOUTPUT\tCOST\n")
	for _, m := range s.Models {
		u := m.Usage
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t$%.4f\n", human.Sanitize(m.Model), m.Calls, m.Errors,
			human.Duration(time.Duration(m.MS)*time.Millisecond), u.InputTokens, u.CachedTokens, u.OutputTokens, u.CostUSD)
	}
}

// showMissing reports what to install beforehand, and how it then gets into a
// sandbox.
func showMissing(w io.Writer, s admin.TaskStats) {
	if len(s.Missing) == 0 {
		return
	}
	fmt.Fprintln(w)
	for i, m := range s.Missing {
		if i == 20 {
			fmt.Fprintf(w, "and %d more; --json lists them\n", len(s.Missing)-i)
			break
		}
		what := string(m.Language)
		if what == "" {
			what = "command"
		}
		fmt.Fprintf(w, "%s failed on: %s (%s)\n", human.Count(m.Tasks, "task"), human.Sanitize(m.Name), human.Sanitize(what))
	}
	fmt.Fprintln(w, "Install them below /usr on this machine, for example with its package manager: sandboxes of the host template then have them.")
}

func repositories(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d on repositories", n)
}
