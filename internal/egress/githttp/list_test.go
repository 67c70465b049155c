package githttp

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
)

// TestList sends lists of commands.
func TestList(t *testing.T) {
	one := strings.Repeat("1", 40)
	two := strings.Repeat("2", 40)
	long := strings.Repeat("1", 64)
	create := func(ref string) []byte { return listOf("report-status", zeros+" "+one+" "+ref) }
	raw := func(parts ...string) []byte { return []byte(strings.Join(parts, "")) }
	line := func(s string) string { return string(appendLine(nil, s)) }
	good := zeros + " " + one + " refs/heads/hortus/x"
	for _, c := range []struct {
		name    string
		list    []byte
		refused string
	}{
		{"one", create("refs/heads/hortus/x"), ""},
		{"UTF-8", create("refs/heads/hortus/größe"), ""},
		{"line end", raw(line(good+"\x00report-status\n"), flush), ""},
		{"no capabilities", raw(line(good), flush), ""},
		{"all capabilities", listOf("report-status report-status-v2 side-band-64k quiet atomic ofs-delta delete-refs object-format=sha1 agent=git/2.39.5 session-id=x", good), ""},
		{"shallow", raw(line("shallow "+two), line("shallow "+two), line(good), flush), ""},
		{"SHA-256", listOf("object-format=sha256", strings.Repeat("0", 64)+" "+long+" refs/heads/hortus/x"), ""},

		{"SHA-256 without saying so", listOf("", strings.Repeat("0", 64)+" "+long+" refs/heads/hortus/x"), "its ids do not have the length"},
		{"SHA-1 in SHA-256", listOf("object-format=sha256", good), "its ids do not have the length"},
		{"mixed ids", listOf("", zeros+" "+long+" refs/heads/hortus/x"), "malformed"},
		{"upper case", listOf("", zeros+" "+strings.Repeat("A", 40)+" refs/heads/hortus/x"), "malformed"},
		{"twice", listOf("", good, good), "it is there twice"},
		{"nothing changes", listOf("", one+" "+one+" refs/heads/hortus/x"), "changes nothing"},
		{"nothing at all", listOf("", zeros+" "+zeros+" refs/heads/hortus/x"), "changes nothing"},
		{"HEAD", create("HEAD"), "cannot be pushed"},
		{"no folder", create("refs/x"), "cannot be pushed"},
		{"dots", create("refs/heads/hortus/../main"), "cannot be pushed"},
		{"dot", create("refs/heads/hortus/./main"), "cannot be pushed"},
		{"lock", create("refs/heads/hortus/x.lock"), "cannot be pushed"},
		{"empty component", create("refs/heads/hortus//x"), "cannot be pushed"},
		{"slash at the end", create("refs/heads/hortus/"), "cannot be pushed"},
		{"space", create("refs/heads/hortus/a b"), "cannot be pushed"},
		{"control", create("refs/heads/hortus/a\x1bb"), "cannot be pushed"},
		{"line break", create("refs/heads/hortus/a\nb"), "cannot be pushed"},
		{"direction", create("refs/heads/hortus/a\u202eb"), "cannot be pushed"},
		{"not UTF-8", create("refs/heads/hortus/\xff"), "cannot be pushed"},
		{"star", create("refs/heads/hortus/*"), "cannot be pushed"},
		{"long", create("refs/heads/hortus/" + strings.Repeat("x", 500)), "too long"},
		{"other case", create("refs/heads/Hortus/x"), "may not be pushed"},
		{"prefix", create("refs/heads/hortus"), "may not be pushed"},
		{"second NUL", listOf("atomic\x00 x", good), "is not possible"},
		{"NUL in a later command", listOf("", good, zeros+" "+one+" refs/heads/hortus/y\x00atomic"), "cannot be pushed"},
		{"tab in capabilities", listOf("atomic\tpush-options", good), "is not possible"},
		{"unknown capability", listOf("future", good), `"future" is not possible`},
		{"push options", listOf("push-options", good), "push options are not possible"},
		{"certificate", raw(line("push-cert\x00atomic"), line("certificate version 0.1"), flush), "signed pushes"},
		{"shallow in the middle", raw(line(good+"\x00"), line("shallow "+two), flush), "malformed"},
		{"shallow only", raw(line("shallow "+two), flush), "malformed"},
		{"shallow of another format", raw(line("shallow "+long), line(good), flush), "malformed"},
		{"delimiter", raw(line(good), "0001"), "malformed"},
		{"no end", raw(line(good)), "does not end"},
		{"empty", nil, "does not end"},
		{"empty line", raw("0004", line(good), flush), "malformed"},
		{"bad length", raw("00zz", line(good), flush), "malformed"},
		{"line too long", raw("fff5", strings.Repeat("x", 70000)), "malformed"},
		{"cut", raw(line(good)[:30]), "malformed"},
		{"not a command", raw(line("hello"), flush), "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := append(bytes.Clone(c.list), packOf()...)
			if c.name == "SHA-256" {
				whole = append(bytes.Clone(c.list), emptyLongPack(t)...)
			}
			if c.refused == "does not end" || c.name == "cut" {
				whole = c.list
			}
			got, err := sent(t, sandboxRule(), receivePack, bytes.NewReader(whole), bounds())
			if c.refused == "" {
				if err != nil || !bytes.Equal(got, whole) {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			var refused *Refusal
			if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.refused) || len(got) > 0 {
				t.Fatalf("%d bytes sent; refused: %v, want %q", len(got), err, c.refused)
			}
			status, contentType, body := refused.Answer()
			report := status == http.StatusOK && contentType == resultType(receivePack)
			if report == strings.Contains(string(body), "hortus: git: ") || !report && status != http.StatusForbidden {
				t.Errorf("the answer is %d %s %q", status, contentType, body)
			}
		})
	}
	// Git asks with an empty list whether it may push.
	if got, err := sent(t, sandboxRule(), receivePack, strings.NewReader(flush), bounds()); err != nil || string(got) != flush {
		t.Errorf("the question was refused: %v", err)
	}
	if _, err := sent(t, sandboxRule(), receivePack, strings.NewReader(flush+"x"), bounds()); err == nil {
		t.Error("something follows the question, and is passed")
	}
}

func emptyLongPack(t *testing.T) []byte {
	t.Helper()
	b := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
	sum := newHash(true)
	sum.Write(b)
	return sum.Sum(b)
}
