package view

import (
	"context"
	"fmt"
	"io"
	"strings"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/cli/human"
	"hortus.dev/internal/platform/lazyregexp"
)

// How much of a failed gate is shown: names of tests, and lines that give reasons.
const (
	shownTests   = 8
	shownReasons = 6
)

// failures shows why a gate failed: the tests that failed, by name, and what they said.
// Where no test is named, it shows the last lines of the output.
func (p *Progress) failures(g api.Gate, lines int) {
	if lines == 0 || g.Passed || p.Quiet {
		return
	}
	var failed []string
	if g.Tests != nil {
		failed = g.Tests.FailedTests
	}
	if len(failed) == 0 {
		failed = failedTests(g.Output)
	}
	if len(failed) == 0 {
		if strings.TrimSpace(g.Output) != "" {
			p.Block(human.LastLines(g.Output, lines))
		}
		return
	}
	var b strings.Builder
	for i, name := range failed {
		if i == shownTests {
			fmt.Fprintf(&b, "and %d more\n", len(failed)-i)
			break
		}
		fmt.Fprintf(&b, "FAILED %s\n", human.Truncate(name, 160))
	}
	why := reasons(g.Output)
	for _, r := range why[:min(len(why), shownReasons)] {
		fmt.Fprintf(&b, "  %s\n", human.Truncate(r, 160))
	}
	p.Block(strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"))
}

// failedLines are those by which runners name a test that failed: unittest, pytest, TAP, go
// test and cargo. The last group that matched is the name.
var failedLines = []*lazyregexp.Regexp{
	lazyregexp.New(`^(?:FAIL|ERROR): (\S+ \(\S+\))`),
	lazyregexp.New(`^(?:FAILED|ERROR) (\S+::\S.*?)(?: - .*)?$`),
	lazyregexp.New(`^\s*not ok \d+ (?:- )?(.*?)(?: # .*)?$`),
	lazyregexp.New(`^\s*--- FAIL: (\S+)`),
	lazyregexp.New(`^test (\S+) \.\.\. FAILED$`),
}

// directive marks a test of TAP that failed as it was expected to.
var directive = lazyregexp.New(`(?i) # (?:todo|skip)\b`)

// failedTests finds the names of failed tests in a runner's output, each once.
func failedTests(output string) []string {
	var names []string
	seen := map[string]bool{}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		for _, re := range failedLines {
			m := re.FindStringSubmatch(line)
			if m == nil || m[1] == "" || seen[m[1]] || directive.MatchString(line) {
				continue
			}
			seen[m[1]] = true
			names = append(names, m[1])
			break
		}
	}
	return names
}

// reasonLines are those by which tests say what was wrong.
var reasonLines = []*lazyregexp.Regexp{
	lazyregexp.New(`^E {3}\s*\S`),                                // pytest
	lazyregexp.New(`^(?:[A-Za-z_][\w.]*)?(?:Error|Exception): `), // Python, JavaScript
	lazyregexp.New(`^\s+(?:error|expected|actual): \S`),          // TAP's details
	lazyregexp.New(`^\s+\S+\.(?:go|rs):\d+:(?:\d+:)? `),          // go test
	lazyregexp.New(`^(?:panic: |thread '.*' panicked|\s*(?:left|right): )`),
}

// reasons finds such lines, each once.
func reasons(output string) []string {
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n")
		for _, re := range reasonLines {
			if text := strings.TrimSpace(line); re.MatchString(line) && !seen[text] {
				seen[text] = true
				out = append(out, text)
				break
			}
		}
	}
	return out
}

// shownPatch is how many lines of a patch are shown at the end of a task.
const shownPatch = 40

// Patch shows the beginning of what a task changed. That it cannot be shown is no failure
// of the task, and hortus task diff says why.
func (p *Progress) Patch(ctx context.Context, c *client.Client, t api.Task) {
	r, err := c.Tasks.Diff(ctx, t.ID, 0)
	if err != nil {
		return
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, 256<<10))
	if err != nil {
		return
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	var shown []string
	for i, line := range lines {
		if i == shownPatch && len(lines) > shownPatch+5 {
			shown = append(shown, fmt.Sprintf("... %d more lines: hortus task diff %s", len(lines)-i, t.ID.Short()))
			break
		}
		shown = append(shown, p.Paint(patchColour(line), human.SanitizeTo(line, 200, "\t")))
	}
	p.Block(shown)
}
