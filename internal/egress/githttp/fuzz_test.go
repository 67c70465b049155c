package githttp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// small are limits that a fuzz test reaches.
func small() limits {
	l := bounds()
	l.window, l.prefetch, l.list, l.commands, l.upload = 70<<10, 1, 70<<10, 20, 1<<20
	l.pack = pack{objects: 100, inflated: 1 << 20, ratio: 200, free: 64 << 10, commit: 4 << 10, cache: 8 << 10, commits: 20, parents: 40, walk: 100}
	return l
}

// FuzzLine reads lines, at once and in pieces.
func FuzzLine(f *testing.F) {
	for _, s := range []string{"0000", "0001", "0005a", "0006a\n", "0004", "fff0", "00", "zzzz", "0009done\n0000"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func(r io.Reader) (out []string) {
			s := newSource(r, 128<<10)
			for {
				kind, text, err := readLine(s)
				if err != nil {
					return append(out, err.Error())
				}
				if kind != dataLine && text != nil || len(text) > maxLine {
					t.Fatalf("a line of kind %d has %d bytes", kind, len(text))
				}
				out = append(out, string(rune('0'+kind))+string(text))
				s.checked, s.sent = s.pos, s.pos
			}
		}
		whole, part := read(bytes.NewReader(in)), read(pieces{bytes.NewReader(in), 3})
		if strings.Join(whole, "|") != strings.Join(part, "|") {
			t.Fatalf("%q, in pieces %q", whole, part)
		}
	})
}

// reading checks a body in pieces of n bytes. It fails if more than the window was kept, or if
// something else was passed on than what came.
func reading(t *testing.T, service string, in []byte, n int) ([]byte, error) {
	t.Helper()
	l := small()
	rule := sandboxRule()
	rule.Delete = true
	r := post(t, service, pieces{bytes.NewReader(in), n})
	r.Header.Set("Git-Protocol", "version=2")
	out, err := check(rule, r, l)
	if err != nil {
		return nil, reasoned(t, err)
	}
	b := out.Body.(*body)
	got, err := io.ReadAll(b)
	if len(b.src.buf) > l.window+l.list+l.prefetch {
		t.Fatalf("%d bytes were kept", len(b.src.buf))
	}
	if !bytes.HasPrefix(in, got) || err == nil && len(got) != len(in) {
		t.Fatalf("%d of %d bytes were passed on, not as they came: %v", len(got), len(in), err)
	}
	if b.err == io.EOF {
		return got, nil
	}
	return got, reasoned(t, err)
}

// reasoned fails if an error is not a refusal with an answer.
func reasoned(t *testing.T, err error) error {
	t.Helper()
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Reason == "" || refused.Hint == "" {
		t.Fatalf("the error is %#v", err)
	}
	if _, kind, body := refused.Answer(); kind == "" || len(body) == 0 {
		t.Fatal("there is no answer")
	}
	return err
}

// same fails if a body is not judged in pieces as it is whole.
func same(t *testing.T, service string, in []byte) ([]byte, error) {
	t.Helper()
	got, err := reading(t, service, in, 1<<20)
	for _, n := range []int{1, 7} {
		part, partErr := reading(t, service, in, n)
		if (err == nil) != (partErr == nil) || err != nil && err.Error() != partErr.Error() || !bytes.Equal(got, part) {
			t.Fatalf("whole: %d bytes, %v; in pieces of %d: %d bytes, %v", len(got), err, n, len(part), partErr)
		}
	}
	return got, err
}

// FuzzFetch reads the bodies of fetches.
func FuzzFetch(f *testing.F) {
	one := strings.Repeat("1", 40)
	f.Add([]byte("0000"))
	f.Add([]byte("0032want " + one + "\n00000009done\n"))
	f.Add([]byte("0014command=ls-refs\n0001000bpeel\n0000"))
	f.Add([]byte("0012command=fetch\n00010032have " + one + "\n0000"))
	f.Fuzz(func(t *testing.T, in []byte) { _, _ = same(t, uploadPack, in) })
}

// FuzzCommands reads lists of commands, with the smallest pack behind them.
func FuzzCommands(f *testing.F) {
	f.Add(listOf("report-status side-band-64k", zeros+" "+tree+" refs/heads/hortus/x"))
	f.Add(listOf("report-status", zeros+" "+tree+" refs/heads/main", tree+" "+zeros+" refs/heads/hortus/y"))
	f.Add(listOf("atomic", tree+" "+zeros+" refs/heads/hortus/y"))
	f.Add([]byte("0035shallow " + tree + "\n0000"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, _ = same(t, receivePack, in)
		whole := append(bytes.Clone(in), packOf()...)
		got, err := same(t, receivePack, whole)
		if err != nil {
			return
		}
		// What passes has only refs of the rule.
		s := newSource(bytes.NewReader(got), 128<<10)
		for {
			kind, text, err := readLine(s)
			if err != nil || kind != dataLine {
				return
			}
			s.checked, s.sent = s.pos, s.pos
			if line, _, _ := strings.Cut(string(text), "\x00"); strings.Contains(line, " refs/") && !strings.Contains(line, " refs/heads/hortus/") {
				t.Fatalf("%q passed", line)
			}
		}
	})
}

// FuzzPack parses packs of an update that is not forced.
func FuzzPack(f *testing.F) {
	old := commitText("old")
	a := commitText("a", commitName(old))
	b := commitText("b", commitName(a))
	commit := func(c []byte) crafted { return crafted{kind: packCommit, content: c} }
	f.Add(packOf(commit(a), commit(b)))
	f.Add(packOf(commit(a), crafted{kind: packOffset, content: deltaOf(a, 50, b[50:]), back: 1}))
	f.Add(packOf(commit(a), crafted{kind: packRefDelta, content: deltaOf(a, 50, b[50:]), base: unhex(f, commitName(a))}))
	f.Add(packOf(crafted{kind: packBlob, content: []byte("x")}, crafted{kind: packTree}))
	f.Add(packOf())
	list := listOf("report-status", commitName(old)+" "+commitName(b)+" refs/heads/hortus/x")
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, in := range [][]byte{in, resum(in)} {
			got, err := same(t, receivePack, append(bytes.Clone(list), in...))
			early := err != nil && (strings.Contains(err.Error(), io.ErrUnexpectedEOF.Error()) || len(in) == 0)
			if err != nil && !early && len(got) > len(list)+len(in)-1 {
				t.Fatalf("a pack that was refused for another reason than its early end was passed on whole: %v", err)
			}
		}
	})
}

// resum gives a pack the checksum that it should have.
func resum(in []byte) []byte {
	if len(in) < 20 {
		return in
	}
	sum := newHash(false)
	sum.Write(in[:len(in)-20])
	return sum.Sum(bytes.Clone(in[:len(in)-20]))
}

// FuzzDelta applies deltas to a base.
func FuzzDelta(f *testing.F) {
	base := []byte(strings.Repeat("0123456789", 20))
	f.Add(deltaOf(base, 50, []byte("tail")))
	f.Add([]byte{200, 1, 0xff, 0xff, 3, 0x80})
	f.Fuzz(func(t *testing.T, delta []byte) {
		if out, err := applyDelta(base, delta, 1000); len(out) > 1000 || err != nil && out != nil {
			t.Fatalf("the result has %d bytes, %v", len(out), err)
		}
	})
}
