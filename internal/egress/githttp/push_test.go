package githttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// post makes the request of a client as a server has it.
func post(t testing.TB, service string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, "http://example.org/o/r.git/"+service, body)
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = -1
	r.Header.Set("Content-Type", requestType(service))
	return r
}

// sent checks a body, and returns what the server gets and the error.
func sent(t testing.TB, rule secrets.Git, service string, in io.Reader, l limits, change ...func(*http.Request)) ([]byte, error) {
	t.Helper()
	r := post(t, service, in)
	for _, c := range change {
		c(r)
	}
	out, err := check(rule, r, l)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(out.Body)
	if err == nil && out.ContentLength >= 0 && out.ContentLength != int64(len(b)) {
		t.Errorf("the length is %d, the body has %d bytes", out.ContentLength, len(b))
	}
	return b, err
}

// streaming are limits with which nothing of a pack is read in advance.
func streaming() limits {
	l := bounds()
	l.prefetch = 1
	return l
}

// TestPack sends crafted packs. Each refused one ends before the checksum of its pack.
func TestPack(t *testing.T) {
	old := commitText("old")
	a := commitText("a", commitName(old))
	b := commitText("b", commitName(a))
	merge := commitText("merge", commitName(commitText("x")), commitName(b))
	stranger := commitText("stranger")
	big := commitText(strings.Repeat("x", 2<<20), commitName(old))
	ref := "refs/heads/hortus/x"
	update := func(to []byte) string { return commitName(old) + " " + commitName(to) + " " + ref }
	commit := func(c []byte) crafted { return crafted{kind: packCommit, content: c} }
	delta := deltaOf(a, 50, b[50:])
	if got, err := applyDelta(a, delta, 1<<20); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("the delta makes %q, %v", got, err)
	}
	pack := packOf(commit(b), commit(a))
	damaged := bytes.Clone(pack)
	damaged[len(damaged)-1] ^= 1
	flipped := bytes.Clone(pack)
	flipped[20] ^= 1
	third := bytes.Clone(pack)
	third[7] = 3

	for _, c := range []struct {
		name    string
		command string
		pack    []byte
		refused string // "" if it is allowed
	}{
		{"fast-forward", update(b), pack, ""},
		{"in the other order", update(b), packOf(commit(a), commit(b)), ""},
		{"merge", update(merge), packOf(commit(a), commit(merge), commit(b)), ""},
		{"with other objects", update(b), packOf(crafted{kind: packBlob, content: nil}, commit(a), crafted{kind: packTag, content: []byte("x")}, commit(b), crafted{kind: packTree, content: nil}), ""},
		{"delta at an offset", update(b), packOf(commit(a), crafted{kind: packOffset, content: delta, back: 1}), ""},
		{"delta by id", update(b), packOf(commit(a), crafted{kind: packRefDelta, content: delta, base: unhex(t, commitName(a))}), ""},
		{"chain of deltas", update(b), packOf(commit(stranger),
			crafted{kind: packOffset, content: deltaOf(stranger, 46, a[46:]), back: 1},
			crafted{kind: packOffset, content: delta, back: 1}), ""},
		{"create", zeros + " " + commitName(stranger) + " " + ref, packOf(), ""},
		{"create with objects", zeros + " " + commitName(stranger) + " " + ref, packOf(commit(stranger)), ""},

		{"not the commit of the command", update(b), packOf(commit(a)), "the new commit of"},
		{"another commit", update(b), packOf(commit(stranger)), "the new commit of"},
		{"empty", update(b), packOf(), "the new commit of"},
		{"unrelated", update(stranger), packOf(commit(stranger)), "is not fast-forward"},
		{"the way is interrupted", update(b), packOf(commit(b)), "is not fast-forward"},
		{"a blob that looks like the commit", update(b), packOf(commit(a), crafted{kind: packBlob, content: b}), "the new commit of"},
		{"base outside of the pack", update(b), packOf(crafted{kind: packRefDelta, content: delta, base: unhex(t, commitName(a))}), "the new commit of"},
		{"commit too large", update(big), packOf(commit(big)), "some commits could not be read"},
		{"checksum", update(b), damaged, "the checksum of the pack is wrong"},
		{"damaged data", update(b), flipped, "malformed"},
		{"version 3", update(b), third, "no pack of version 2"},
		{"bytes behind", update(b), append(bytes.Clone(pack), 0), "something follows the pack"},
		{"a second pack", update(b), append(bytes.Clone(pack), pack...), "something follows the pack"},
		{"ends early", update(b), pack[:len(pack)-1], "malformed"},
		{"ends in an object", update(b), pack[:40], "malformed"},
		{"no pack", update(b), nil, "there is no pack"},
		{"size too small", update(b), packOf(crafted{kind: packCommit, content: b, size: 20}, commit(a)), "larger than it says"},
		{"size too large", update(b), packOf(crafted{kind: packCommit, content: b, size: 2000}, commit(a)), "smaller than it says"},
		{"unknown kind", update(b), packOf(crafted{kind: 5, content: b}, commit(a)), "unknown kind 5"},
		{"base in front of the pack", update(b), packOf(crafted{kind: packOffset, content: delta, back: 9}), "outside of the pack"},
		{"delta of another base", update(b), packOf(commit(stranger), crafted{kind: packOffset, content: delta, back: 1}), "does not fit its base"},
		{"pack of a deletion", commitName(old) + " " + zeros + " " + ref, pack, "has no pack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rule := sandboxRule()
			rule.Delete = true
			whole := append(listOf("report-status side-band-64k", c.command), c.pack...)
			for _, l := range []limits{bounds(), streaming()} {
				got, err := sent(t, rule, receivePack, bytes.NewReader(whole), l)
				if c.refused == "" {
					if err != nil || !bytes.Equal(got, whole) {
						t.Fatalf("refused: %v; sent %d of %d bytes", err, len(got), len(whole))
					}
					continue
				}
				var refused *Refusal
				if !errors.As(err, &refused) || !strings.Contains(refused.Reason, c.refused) {
					t.Fatalf("refused: %v, want %q", err, c.refused)
				}
				end := len(whole) - 20 // where the checksum begins
				switch {
				case strings.Contains(c.refused, "follows"):
					end = len(whole) - len(c.pack) + len(pack) - 20
				case c.name == "ends early":
					end++
				case c.pack == nil:
					end = len(whole)
				}
				if !bytes.HasPrefix(whole, got) || len(got) > end {
					t.Fatalf("%d of %d bytes were sent; the checksum begins at %d", len(got), len(whole), end)
				}
			}
			if c.refused == "" || c.refused == "the new commit of" || c.refused == "is not fast-forward" {
				return
			}
			// With force the history is not asked for, but what is no pack is still refused.
			rule.Force = true
			_, err := sent(t, rule, receivePack, bytes.NewReader(whole), streaming())
			if forced := strings.Contains(c.refused, "some commits") || strings.Contains(c.refused, "its base"); (err == nil) != forced {
				t.Errorf("with force: %v", err)
			}
		})
	}
}

// TestPackLimits sends packs that are too large in some respect, and then with the limit.
func TestPackLimits(t *testing.T) {
	old := commitText("old")
	var entries []crafted
	last := old
	for i := range 5 {
		last = commitText(fmt.Sprint(i), commitName(last))
		entries = append(entries, crafted{kind: packCommit, content: last})
	}
	entries = append(entries, crafted{kind: packBlob, content: make([]byte, 1<<20)})
	whole := append(listOf("report-status", commitName(old)+" "+commitName(last)+" refs/heads/hortus/x"), packOf(entries...)...)
	for _, c := range []struct {
		name    string
		set     func(*limits, int)
		enough  int
		little  int
		refused string
	}{
		{"objects", func(l *limits, n int) { l.pack.objects = uint32(n) }, 6, 5, "6 objects"},
		{"inflated", func(l *limits, n int) { l.pack.inflated = int64(n) }, 2 << 20, 1 << 20, "too large"},
		{"ratio", func(l *limits, n int) { l.pack.free, l.pack.ratio = 0, int64(n) }, 1000, 100, "too large"},
		{"commits", func(l *limits, n int) { l.pack.commits = n }, 5, 4, "the push has too many"},
		{"parents", func(l *limits, n int) { l.pack.parents = n }, 5, 4, "the push has too many"},
		{"walk", func(l *limits, n int) { l.pack.walk = n }, 5, 4, "too large to be checked"},
		{"commit", func(l *limits, n int) { l.pack.commit = int64(n) }, len(last), len(last) - 1, "could not be read"},
		{"list", func(l *limits, n int) { l.list = n }, 1000, 100, "larger than"},
		{"commands", func(l *limits, n int) { l.commands = n }, 1, 0, "more than 0 commands"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, n := range []int{c.enough, c.little} {
				l := streaming()
				c.set(&l, n)
				got, err := sent(t, sandboxRule(), receivePack, bytes.NewReader(whole), l)
				if n == c.enough && (err != nil || !bytes.Equal(got, whole)) {
					t.Errorf("with %d: %v", n, err)
				}
				if n == c.little && (err == nil || !strings.Contains(err.Error(), c.refused)) {
					t.Errorf("with %d: %v, want %q", n, err, c.refused)
				}
			}
		})
	}
}

// TestCommits keeps few contents of commits, and reads deltas whose base was kept.
func TestCommits(t *testing.T) {
	old := commitText("old")
	a, b, c := commitText("a", commitName(old)), []byte(nil), commitText("c")
	b = commitText("b", commitName(a))
	far := packOf(crafted{kind: packCommit, content: a}, crafted{kind: packCommit, content: c}, crafted{kind: packOffset, content: deltaOf(a, 50, b[50:]), back: 2})
	whole := append(listOf("", commitName(old)+" "+commitName(b)+" refs/heads/hortus/x"), far...)
	for _, cache := range []int64{2000, 500} {
		l := streaming()
		l.pack.cache = cache
		_, err := sent(t, sandboxRule(), receivePack, bytes.NewReader(whole), l)
		if (err == nil) != (cache == 2000) {
			t.Errorf("with a cache of %d bytes: %v", cache, err)
		}
	}
}

// TestTags creates and moves tags.
func TestTags(t *testing.T) {
	old := commitText("old")
	next := commitText("next", commitName(old))
	pack := packOf(crafted{kind: packCommit, content: next})
	for _, c := range []struct {
		old   string
		force bool
		ok    bool
	}{{zeros, false, true}, {commitName(old), false, false}, {commitName(old), true, true}} {
		rule := sandboxRule()
		rule.Push, rule.Force = []string{"refs/tags/*"}, c.force
		whole := append(listOf("", c.old+" "+commitName(next)+" refs/tags/v1"), pack...)
		_, err := sent(t, rule, receivePack, bytes.NewReader(whole), bounds())
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "may not be moved") {
			t.Errorf("from %s, force %v: %v", c.old, c.force, err)
		}
	}
}

// TestDeltasGrow sends deltas that are much smaller than what they make.
func TestDeltasGrow(t *testing.T) {
	old := commitText("old")
	base := commitText(strings.Repeat("x", 4000), commitName(old))
	entries := []crafted{{kind: packCommit, content: base}}
	for i := range 50 {
		entries = append(entries, crafted{kind: packRefDelta, content: deltaOf(base, 4000, fmt.Append(nil, i)), base: unhex(t, commitName(base))})
	}
	whole := append(listOf("", commitName(old)+" "+commitName(base)+" refs/heads/hortus/x"), packOf(entries...)...)
	for _, n := range []int64{300_000, 100_000} {
		l := streaming()
		l.pack.inflated = n
		if _, err := sent(t, sandboxRule(), receivePack, bytes.NewReader(whole), l); (err == nil) != (n == 300_000) {
			t.Errorf("with %d bytes: %v", n, err)
		}
	}
	// One that makes more than it says is given up when it does.
	large := make([]byte, 1<<20)
	delta := []byte{0x80, 0x80, 0x40, 10}
	for range 2000 {
		delta = append(delta, 0xc0, 0x0f) // 983,040 bytes from the beginning
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	out, err := applyDelta(large, delta, 1<<20)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; err != errDelta || out != nil || used > 8<<20 {
		t.Errorf("%d bytes, %v, with %d bytes of memory", len(out), err, used)
	}
}

// TestEndlessBlocks sends compressed data that never has a content.
func TestEndlessBlocks(t *testing.T) {
	head := append(listOf("", zeros+" "+tree+" refs/heads/hortus/x"), "PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31\x78\x9c"...)
	in := io.MultiReader(bytes.NewReader(head), &endless{})
	got, err := sent(t, sandboxRule(), receivePack, in, streaming())
	if err == nil || !strings.Contains(err.Error(), errWindow.Error()) || len(got) > len(head) {
		t.Errorf("%d bytes were sent: %v", len(got), err)
	}
}

// endless is stored blocks of zero bytes.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = []byte{0, 0, 0, 0xff, 0xff}[e.n%5]
		e.n++
	}
	return len(p), nil
}
