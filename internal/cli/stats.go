package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"hortus.dev/api"
)

type statsCmd struct {
	Since span `placeholder:"7d" help:"Only tasks that are not older: 12h, 7d, 4w. All when left out."`
}

// span is a length of time that may count days and weeks: "7d", "2w", "36h".
type span time.Duration

// longestSpan is a hundred years; more would overflow.
const longestSpan = 100 * 365 * 24 * time.Hour

// UnmarshalText reads a span above 0.
func (s *span) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	days := map[string]float64{"d": 1, "w": 7}
	if n := len(t); n > 0 && days[t[n-1:]] > 0 {
		f, err := strconv.ParseFloat(t[:n-1], 64)
		if err == nil && f*days[t[n-1:]]*24 <= longestSpan.Hours() && f > 0 {
			*s = span(f * days[t[n-1:]] * 24 * float64(time.Hour))
			return nil
		}
	} else if d, err := time.ParseDuration(t); err == nil && d > 0 && d <= longestSpan {
		*s = span(d)
		return nil
	}
	return api.Errorf(api.KindInvalid, "%.40q is no span of time", text).WithHint("write it as 12h, 7d or 4w")
}

// Run says what earlier tasks came to.
func (c *statsCmd) Run(ctx runContext, a *app) error {
	cl, err := a.client(ctx)
	if err != nil {
		return err
	}
	var since time.Time
	if c.Since > 0 {
		since = time.Now().Add(-time.Duration(c.Since))
	}
	s, err := cl.TaskStats(ctx, since)
	if err != nil {
		return err
	}
	if a.opt.JSON {
		return a.json(s)
	}
	return a.showStats(s)
}

func (a *app) showStats(s api.TaskStats) error {
	when := "so far"
	if !s.Since.IsZero() {
		when = "since " + s.Since.Local().Format("2006-01-02 15:04")
	}
	if s.Tasks == 0 {
		_, err := fmt.Fprintf(a.env.Stdout, "No task %s. Make the first with: hortus run \"print the first 20 prime numbers\"\n", when)
		return err
	}
	w := tabwriter.NewWriter(a.env.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "tasks\t%d %s%s\n", s.Tasks, when, parts(": ", count(s.Requests-s.Repositories, "request"), repositories(s.Repositories), count(s.Programs, "program"), count(s.Replays, "replay")))
	if n := ended(s); n > 0 {
		fmt.Fprintf(w, "verified\t%d of %d (%.0f%%)\n", s.Outcomes[api.OutcomeVerified], n, 100*s.SuccessRate)
	}
	var rest []string
	for _, o := range slices.Sorted(maps.Keys(s.Outcomes)) {
		if o != api.OutcomeVerified {
			rest = append(rest, fmt.Sprintf("%d %s", s.Outcomes[o], clean(strings.ReplaceAll(string(o), "_", " "))))
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
	var stops []string
	for _, r := range slices.Sorted(maps.Keys(s.Stops)) {
		stops = append(stops, fmt.Sprintf("%d %s", s.Stops[r], clean(stopText(r))))
	}
	if len(stops) > 0 {
		fmt.Fprintf(w, "agents\t%s\n", strings.Join(stops, ", "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, show := range []func(io.Writer, api.TaskStats){showPhases, showFailures, showModelUse} {
		show(w, s)
		if err := w.Flush(); err != nil {
			return err
		}
	}
	showMissing(a.env.Stdout, s)
	return nil
}

// ended counts the requests that the share of verified ones is taken of.
func ended(s api.TaskStats) (n int) {
	for o, k := range s.Outcomes {
		if o != api.OutcomeCanceled {
			n += k
		}
	}
	return n
}

func showPhases(w io.Writer, s api.TaskStats) {
	if len(s.Phases) == 0 {
		return
	}
	fmt.Fprintf(w, "\nTIME\tCOUNT\tTOTAL\tMEAN\n")
	for _, p := range s.Phases {
		total := time.Duration(p.TotalMS) * time.Millisecond
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", clean(p.Phase), p.Count, showDuration(total), showDuration(total/time.Duration(max(p.Count, 1))))
	}
}

func showFailures(w io.Writer, s api.TaskStats) {
	if len(s.Failures)+len(s.Errors) == 0 {
		return
	}
	fmt.Fprintf(w, "\nFAILURE\tATTEMPTS\tTASKS\n")
	for _, f := range s.Failures {
		fmt.Fprintf(w, "%s\t%d\t%d\n", clean(string(f.Category)), f.Attempts, f.Tasks)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Errors)) {
		fmt.Fprintf(w, "error: %s\t\t%d\n", clean(string(k)), s.Errors[k])
	}
}

func showModelUse(w io.Writer, s api.TaskStats) {
	if len(s.Models) == 0 {
		return
	}
	fmt.Fprintf(w, "\nMODEL\tCALLS\tERRORS\tTIME\tINPUT\tCACHED\tOUTPUT\tCOST\n")
	for _, m := range s.Models {
		u := m.Usage
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\t$%.4f\n", clean(m.Model), m.Calls, m.Errors,
			showDuration(time.Duration(m.MS)*time.Millisecond), u.InputTokens, u.CachedTokens, u.OutputTokens, u.CostUSD)
	}
}

// showMissing says what to install beforehand, and how it then gets into a
// sandbox.
func showMissing(w io.Writer, s api.TaskStats) {
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
		fmt.Fprintf(w, "%s failed on: %s (%s)\n", count(m.Tasks, "task"), clean(m.Name), clean(what))
	}
	fmt.Fprintln(w, "Install them below /usr on this machine, for example with its package manager: sandboxes of the host template then have them.")
}

// count writes a number with its noun, or nothing for 0.
func count(n int, noun string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func repositories(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d on repositories", n)
}

// parts joins what is not empty.
func parts(head string, list ...string) string {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	if len(list) == 0 {
		return ""
	}
	return head + strings.Join(list, ", ")
}
