package admin

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/internal/cli/app"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/egress/check"
)

// egressReport is the output of "hortus doctor --egress --json".
type egressReport struct {
	Held bool        `json:"held"`
	Rows []check.Row `json:"rows"`
	// Untested are backends that were not tested.
	Untested []untestedBackend `json:"untested"`
}

type untestedBackend struct {
	Isolation string `json:"isolation"`
	Reason    string `json:"reason"`
}

// testEgress runs the attacks on outgoing connections against the daemon.
func (d *DoctorCommand) testEgress(ctx app.Context, a *app.App) error {
	if _, remote, err := a.Remote(); err != nil || remote {
		if err != nil {
			return err
		}
		return api.Errorf(api.KindUnsupported, "doctor --egress starts servers that sandboxes try to reach, so it runs on the daemon's machine only").
			WithHint("run it there, as the daemon's user")
	}
	if a.Env.Probe == nil {
		return api.Errorf(api.KindUnsupported, "doctor --egress runs on Linux only")
	}
	c, err := a.Client(ctx)
	if err != nil {
		return err
	}
	info, err := c.Doctor(ctx)
	if err != nil {
		return err
	}
	report := egressReport{Rows: []check.Row{}, Untested: []untestedBackend{}}
	names := d.backends(info, &report)
	if len(names) == 0 && d.Isolation == "" {
		return api.Errorf(api.KindUnisolated, "no backend of this host can capture outgoing connections, so sandboxes reach nothing").
			WithHint("hortus doctor shows why the capability egress is missing")
	}
	exe, err := a.Env.Probe()
	if err != nil {
		return api.Errorf(api.KindInternal, "the program of the test: %w", err)
	}
	for _, name := range names {
		if err := d.testBackend(ctx, a, check.Config{Client: c, Isolation: name, Probe: exe}, &report); err != nil {
			return err
		}
	}
	report.Held = check.Report{Rows: report.Rows}.Held()
	if a.Flags.JSON {
		err = a.JSON(report)
	} else {
		err = showEgress(a, names, report)
	}
	if err == nil && !report.Held {
		return app.ExitCode(1)
	}
	return err
}

// backends returns the backends to test. Others are reported as untested.
func (d *DoctorCommand) backends(info admin.Doctor, report *egressReport) (names []string) {
	known := false
	for _, b := range info.Backends {
		if d.Isolation != "" && b.Backend != d.Isolation {
			continue
		}
		known = true
		reason := ""
		for _, need := range []api.Capability{api.CapStart, api.CapIsolated, api.CapEgress} {
			if ab, ok := b.Has(need); !ok && reason == "" {
				reason = fmt.Sprintf("no capability %s: %s", need, ab.Reason)
			}
		}
		if reason != "" {
			report.Untested = append(report.Untested, untestedBackend{b.Backend, reason})
			continue
		}
		names = append(names, b.Backend)
	}
	if !known {
		report.Untested = append(report.Untested, untestedBackend{d.Isolation, "there is no such backend"})
	}
	return names
}

// testBackend runs the attacks of one backend.
func (d *DoctorCommand) testBackend(ctx app.Context, a *app.App, cfg check.Config, report *egressReport) error {
	servers, err := check.NewServers(false)
	if err != nil {
		return api.Errorf(api.KindInternal, "the servers of the test: %w", err)
	}
	defer servers.Close()
	cfg.Servers = servers
	if !a.Flags.Quiet {
		fmt.Fprintf(a.Env.Stderr, "[egress] %s: %d attacks, some of them repeated in a fork and after a pause to disk\n", cfg.Isolation, len(check.Attacks()))
		cfg.Progress = func(r check.Row) {
			if r.Result == check.Broken || r.Result == check.NotTested || r.Phase == check.Running {
				fmt.Fprintf(a.Env.Stderr, "[egress] %s, %s: %s\n", cfg.Isolation, r.ID, r.Result)
			}
		}
	}
	done, err := check.Run(ctx, cfg)
	report.Rows = append(report.Rows, done.Rows...)
	return err
}

// showEgress writes the matrix: a line for each attack, a column for each backend.
func showEgress(a *app.App, names []string, report egressReport) error {
	w := a.Table()
	fmt.Fprintf(w, "ATTACK\tTRIED AS\t%s\n", strings.ToUpper(strings.Join(names, "\t")))
	var reasons, problems, missing []string
	for _, at := range check.Attacks() {
		fmt.Fprintf(w, "%s\t%s", at.ID, at.Title)
		for _, name := range names {
			fmt.Fprintf(w, "\t%s", cell(report.Rows, at.ID, name))
		}
		fmt.Fprintln(w)
	}
	for _, r := range report.Rows {
		switch r.Result {
		case check.Broken:
			problems = append(problems, fmt.Sprintf("%s, %s, %s: %s", r.Isolation, r.ID, r.Phase, human.Sanitize(r.Reason)))
		case check.NotTested:
			missing = append(missing, fmt.Sprintf("%s, %s, %s: %s", r.Isolation, r.ID, r.Phase, human.Sanitize(r.Reason)))
		case check.NotApplicable:
			about := r.ID
			if r.Phase != check.Running {
				about = "all rows, " + string(r.Phase)
			}
			line := fmt.Sprintf(": %s, %s", r.Isolation, human.Sanitize(r.Reason))
			if !slices.ContainsFunc(reasons, func(l string) bool {
				return strings.HasSuffix(l, line) && (r.Phase != check.Running || strings.HasPrefix(l, about))
			}) {
				reasons = append(reasons, about+line)
			}
		}
	}
	for _, u := range report.Untested {
		reasons = append(reasons, human.Sanitize(u.Isolation)+": not tested: "+human.Sanitize(u.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	list(a.Env.Stdout, "not applicable", reasons)
	list(a.Env.Stdout, "not tested", missing)
	list(a.Env.Stdout, "BROKEN", problems)
	if len(missing) > 0 && len(problems) == 0 {
		fmt.Fprintln(a.Env.Stdout, "\nnext: nothing was found to leave, but not everything was tested; run hortus doctor --egress again, on a host with less load.")
	}
	if len(problems) > 0 {
		fmt.Fprintln(a.Env.Stdout, "\nnext: hortus egress log --since 10m shows what the daemon decided. Do not use --egress for untrusted code on this host"+
			" until the cause is known, and report it as SECURITY.md says, with the output of hortus doctor --egress --json.")
	}
	return nil
}

func list(w io.Writer, title string, lines []string) {
	if len(lines) > 0 {
		fmt.Fprintf(w, "\n%s\n", title)
	}
	for _, l := range lines {
		fmt.Fprintf(w, "  %s\n", l)
	}
}

// cell joins the results of an attack in all phases.
func cell(rows []check.Row, id, isolation string) string {
	var held []string
	missing := false
	for _, r := range rows {
		if r.ID != id || r.Isolation != isolation {
			continue
		}
		switch r.Result {
		case check.Broken:
			return "BROKEN"
		case check.NotTested:
			missing = true
		case check.Held:
			held = append(held, string(r.Phase))
		}
	}
	switch {
	case missing:
		return "not tested"
	case len(held) == 0:
		return "n/a"
	case len(held) == 1:
		return "held"
	}
	return "held, also " + strings.Join(held[1:], ", ")
}
