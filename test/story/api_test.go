package story

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hortus.dev/test/tier"
)

// example is a command of a document, and what it prints: nil where that is not shown.
type example struct {
	command string
	prints  []string
}

// examplesOf reads the indented lines of a document that begin with "$ ", and what
// follows each.
func examplesOf(doc string) (all []example) {
	inside := false
	for line := range strings.Lines(doc) {
		text := strings.TrimSpace(line)
		switch command, ok := strings.CutPrefix(text, "$ "); {
		case !strings.HasPrefix(line, "    ") && text != "":
			inside = false
		case ok:
			all, inside = append(all, example{command: command}), true
		case inside:
			last := &all[len(all)-1]
			last.prints = append(last.prints, text)
		}
	}
	for i := range all {
		p := &all[i].prints
		for len(*p) > 0 && (*p)[len(*p)-1] == "" {
			*p = (*p)[:len(*p)-1]
		}
	}
	return all
}

// TestAPIDocument runs the examples of docs/api.md, one after the other in one shell.
func TestAPIDocument(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("the examples need curl: %v", err)
	}
	doc, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	all := examplesOf(string(doc))
	if len(all) < 15 {
		t.Fatalf("only %d examples", len(all))
	}
	g := newGarden(t)
	g.light()
	g.env = append(g.env, "HORTUS_IDLE=5m")
	g.must("doctor") // begins the daemon
	const mark = "----- example %d"
	script := "set -e\n"
	for i, x := range all {
		script += fmt.Sprintf("echo '"+mark+"'\n%s\n", i, x.command)
	}
	script += fmt.Sprintf("echo '"+mark+"'\n", len(all))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Env, cmd.Dir = g.env, filepath.Dir(g.dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for i, x := range all {
		_, got, ok := strings.Cut(out.String(), fmt.Sprintf(mark+"\n", i))
		got, _, ok2 := strings.Cut(got, fmt.Sprintf(mark+"\n", i+1))
		if !ok || !ok2 {
			t.Fatalf("%s did not end:\n%s", x.command, out.String())
		}
		want := regexp.QuoteMeta(strings.Join(x.prints, "\n"))
		want = "^" + strings.ReplaceAll(want, `\.\.\.`, `[\s\S]*`) + "$"
		if got = strings.TrimSpace(got); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s\nprinted\n%s\nwant\n%s", x.command, got, strings.Join(x.prints, "\n"))
		}
	}
}
