package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// record is the output and the result of a step.
type record struct {
	step step
	out  bytes.Buffer
	exit *exit
}

// event is an event of `go tool test2json`.
type event struct {
	Action, Test, Output string
}

// outcome counts a step's tests. passed and failed do not count tests with subtests,
// so that a suite counts by its cases.
type outcome struct {
	passed, failed, skipped int
	skips                   []string // test: reason
	wrong                   []string // why the step failed
}

// judge determines the outcome of a step from its output.
func (r *record) judge(ctx context.Context) (outcome, error) {
	var o outcome
	cmd := exec.CommandContext(ctx, "go", "tool", "test2json")
	cmd.Stdin = bytes.NewReader(r.out.Bytes())
	out, err := cmd.Output()
	if err != nil {
		return o, fmt.Errorf("go tool test2json: %w", err)
	}
	ends, said := map[string]string{}, map[string]string{}
	var order []string
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var e event
		if err := dec.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			return o, fmt.Errorf("go tool test2json: %w", err)
		}
		if e.Test == "" {
			continue
		}
		switch e.Action {
		case "run":
			order = append(order, e.Test)
		case "output":
			if line := strings.TrimSpace(e.Output); line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
				said[e.Test] = line
			}
		case "pass", "fail", "skip":
			ends[e.Test] = e.Action
		}
	}
	for _, name := range order {
		parent := slices.ContainsFunc(order, func(other string) bool { return strings.HasPrefix(other, name+"/") })
		switch end := ends[name]; {
		case end == "":
			o.wrong = append(o.wrong, name+" did not end")
		case end == "fail":
			o.wrong = append(o.wrong, name+" failed")
			if !parent {
				o.failed++
			}
		case end == "skip":
			o.skipped++
			o.skips = append(o.skips, name+": "+said[name])
			if said[name] == "" {
				o.wrong = append(o.wrong, name+" was skipped without a reason")
			}
		case !parent:
			o.passed++
		}
	}
	for _, must := range r.step.Must {
		if ends[must] != "pass" {
			o.wrong = append(o.wrong, fmt.Sprintf("%s had to pass here: %q", must, ends[must]))
		}
	}
	switch {
	case r.exit == nil:
		o.wrong = append(o.wrong, "it did not end")
	case r.exit.Why != "":
		o.wrong = append(o.wrong, r.exit.Why)
	case r.exit.Code != 0:
		o.wrong = append(o.wrong, fmt.Sprintf("exit code %d", r.exit.Code))
	}
	if o.passed == 0 {
		o.wrong = append(o.wrong, "no test passed")
	}
	return o, nil
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
