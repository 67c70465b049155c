package register

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/storage/layer/archive"
	"hortus.dev/internal/storage/layer/archive/s3"
	"hortus.dev/test/archivetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, err error, kind api.Kind, text string) {
	t.Helper()
	if api.KindOf(err) != kind || !strings.Contains(err.Error()+api.HintOf(err), text) {
		t.Errorf("%v (%s), %q; not %s with %q", err, api.KindOf(err), api.HintOf(err), kind, text)
	}
}

// clock is a clock that a test sets.
type clock struct{ ns atomic.Int64 }

func (c *clock) Now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }

// host opens the register of a host, with a clock of its own that is hours off, and a copy.
func host(name string, b archive.Blobs) (*Register, *clock, string) {
	c := &clock{}
	c.add(time.Duration(len(name)) * 7777 * time.Second)
	return New(Config{Blobs: b, Host: name, Now: c.Now}), c, rand.Text()
}

// everywhere runs a test on both kinds of archives.
func everywhere(t *testing.T, test func(t *testing.T, b archive.Blobs)) {
	t.Run("directory", func(t *testing.T) { test(t, archive.Dir{Path: t.TempDir()}) })
	t.Run("S3", func(t *testing.T) {
		l, err := s3.Parse("s3://" + archivetest.Bucket + "/x?endpoint=" + archivetest.Server(t, nil).URL)
		must(t, err)
		b, err := s3.Open(s3.Config{Location: l})
		must(t, err)
		test(t, b)
	})
}

func digest(letter string) string { return "sha256-" + strings.Repeat(letter, 64) }

func TestNames(t *testing.T) {
	everywhere(t, func(t *testing.T, b archive.Blobs) {
		one, _, _ := host("one", b)
		other, _, _ := host("other", b)
		must(t, one.Check(t.Context()))
		id := api.NewWorkspaceID()
		e, added, err := one.Add(t.Context(), Entry{Workspace: id, Account: "team", Name: "shop", QuotaBytes: 7})
		if must(t, err); !added || e.Host != "one" {
			t.Errorf("%+v, %v", e, added)
		}
		got, added, err := other.Add(t.Context(), Entry{Workspace: api.NewWorkspaceID(), Account: "team", Name: "shop"})
		if must(t, err); added || got.Workspace != id || got.QuotaBytes != 7 || got.Host != "one" {
			t.Errorf("the other host: %+v, %v", got, added)
		}
		if _, added, err = other.Add(t.Context(), Entry{Workspace: api.NewWorkspaceID(), Name: "shop"}); err != nil || !added {
			t.Errorf("another account: %v, %v", added, err)
		}
		_, err = other.Find(t.Context(), "team", "shoe")
		wantKind(t, err, api.KindNotFound, "shoe")
		_, _, err = one.Add(t.Context(), Entry{Workspace: "w../x", Name: "shop"})
		wantKind(t, err, api.KindInvalid, "shop")
		must(t, one.Remove(t.Context(), e))
		_, err = other.Find(t.Context(), "team", "shop")
		wantKind(t, err, api.KindNotFound, "shop")
		if _, err := other.Find(t.Context(), "", "shop"); err != nil {
			t.Errorf("that of another account: %v", err)
		}
	})
}

func TestVersions(t *testing.T) {
	everywhere(t, func(t *testing.T, b archive.Blobs) {
		one, _, a := host("one", b)
		other, _, z := host("other", b)
		id := api.NewWorkspaceID()
		if v, err := one.Last(t.Context(), id); err != nil || v.Number != 0 {
			t.Errorf("no version: %+v, %v", v, err)
		}
		l, err := one.Acquire(t.Context(), id, a)
		must(t, err)
		for n := range 4 {
			v, err := one.Append(t.Context(), l, Version{Number: n + 1, Layers: []string{digest("a"), digest("b")}[:1+n%2], Bytes: 5})
			if must(t, err); v.Host != "one" || v.Lease != 1 {
				t.Errorf("%+v", v)
			}
			if v, err = one.Append(t.Context(), l, v); err != nil || v.Number != n+1 {
				t.Errorf("again, because the answer was lost: %+v, %v", v, err)
			}
		}
		v, err := other.Last(t.Context(), id)
		if must(t, err); v.Number != 4 || !slices.Equal(v.Layers, []string{digest("a"), digest("b")}) || v.Host != "one" || v.Bytes != 5 {
			t.Errorf("%+v", v)
		}
		names, err := b.List(t.Context(), prefixOf(id)+"version-", 100)
		if must(t, err); len(names) != 2 {
			t.Errorf("kept: %q", names)
		}
		// Two that have a lease by mistake: one succeeds.
		was, err := other.Append(t.Context(), Lease{id, lease{Number: 2, Copy: z}}, Version{Number: 4, Layers: []string{digest("c")}})
		wantKind(t, err, api.KindConflict, "host one has stored version 4")
		if was.Host != "one" {
			t.Errorf("%+v", was)
		}
		for _, bad := range []Version{{Number: 5}, {Layers: []string{digest("a")}}, {Number: 5, Layers: []string{"host-" + digest("a")[7:]}},
			{Number: 5, Layers: []string{"sha256-../x"}}, {Number: 5, Layers: slices.Repeat([]string{digest("a")}, 17)}} {
			_, err := one.Append(t.Context(), l, bad)
			wantKind(t, err, api.KindInvalid, "version")
		}
		must(t, one.Remove(t.Context(), Entry{Workspace: id, Name: "none"}))
		if names, err := b.List(t.Context(), prefixOf(id), 100); err != nil || len(names) > 0 {
			t.Errorf("removed: %q, %v", names, err)
		}
	})
}

// TestLeases: one copy has the lease, until it is released or not renewed.
func TestLeases(t *testing.T) {
	everywhere(t, func(t *testing.T, b archive.Blobs) {
		one, _, a := host("one", b)
		other, at, z := host("other", b)
		id := api.NewWorkspaceID()
		l, err := one.Acquire(t.Context(), id, a)
		must(t, err)
		if again, err := one.Acquire(t.Context(), id, a); err != nil || again.rec.Number != 1 {
			t.Errorf("the same copy, after a restart: %+v, %v", again, err)
		}
		_, err = other.Acquire(t.Context(), id, z)
		wantKind(t, err, api.KindConflict, "host one")
		for range 9 { // renewed again and again
			at.add(DefaultExpiry - time.Second)
			l, err = one.Renew(t.Context(), l)
			must(t, err)
			_, err = other.Acquire(t.Context(), id, z)
			wantKind(t, err, api.KindConflict, "host one")
		}
		must(t, one.Release(t.Context(), l))
		m, err := other.Acquire(t.Context(), id, z)
		if must(t, err); m.rec.Number != 2 {
			t.Errorf("%+v", m)
		}
		_, err = one.Acquire(t.Context(), id, a)
		wantKind(t, err, api.KindConflict, "host other")
		// The first host is late: its writes take nothing from the other one.
		must(t, one.Release(t.Context(), l))
		_, err = one.Renew(t.Context(), l)
		wantKind(t, err, api.KindConflict, "taken lease 2")
		must(t, one.Release(t.Context(), l))
		if m, err = other.Renew(t.Context(), m); err != nil {
			t.Error(err)
		}
		names, err := b.List(t.Context(), prefixOf(id)+"lease-", 100)
		if must(t, err); !slices.Contains(names, leaseBlob(id, 2)) {
			t.Errorf("%q", names)
		}
	})
}

// TestStolen: a lease that is not renewed is taken after the expiry by the clock of the one who takes it.
func TestStolen(t *testing.T) {
	b := &slow{Blobs: archive.Dir{Path: t.TempDir()}}
	one, _, a := host("one", b)
	other, at, z := host("other", b)
	b.at = at
	id := api.NewWorkspaceID()
	l, err := one.Acquire(t.Context(), id, a)
	must(t, err)
	try := func(after time.Duration) error {
		at.add(after)
		_, err := other.Acquire(t.Context(), id, z)
		return err
	}
	wantKind(t, try(time.Hour), api.KindConflict, "2m0s") // whatever was before
	wantKind(t, try(DefaultExpiry-time.Second), api.KindConflict, "try again in 1s")
	// The archive was slow: the owner may have been unable to renew it. The time begins again.
	b.delay = other.Renewal()
	wantKind(t, try(2*time.Second), api.KindConflict, "2m0s")
	b.delay = 0
	wantKind(t, try(DefaultExpiry-time.Second), api.KindConflict, "1s")
	b.fail = api.Errorf(api.KindUnavailable, "away")
	wantKind(t, try(time.Second), api.KindUnavailable, "away")
	b.fail = nil
	wantKind(t, try(DefaultExpiry), api.KindConflict, "2m0s")
	must(t, try(DefaultExpiry))
	_, err = one.Renew(t.Context(), l)
	wantKind(t, err, api.KindConflict, "not renewed in time")
	// Both store: one version counts.
	_, err = other.Append(t.Context(), Lease{id, lease{Number: 2, Copy: z}}, Version{Number: 1, Layers: []string{digest("a")}})
	must(t, err)
	_, err = one.Append(t.Context(), l, Version{Number: 1, Layers: []string{digest("b")}})
	wantKind(t, err, api.KindConflict, "host other")
}

// slow are blobs that fail, or take time of a clock to be opened.
type slow struct {
	archive.Blobs
	at    *clock
	delay time.Duration
	fail  error
}

func (s *slow) Get(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if s.at.add(s.delay); s.fail != nil {
		return nil, 0, s.fail
	}
	return s.Blobs.Get(ctx, name)
}

// TestOneOfMany: of hosts that want a free lease at the same time one gets it.
func TestOneOfMany(t *testing.T) {
	everywhere(t, func(t *testing.T, b archive.Blobs) {
		id := api.NewWorkspaceID()
		var won atomic.Int64
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				r, _, c := host("h", b)
				if _, err := r.Acquire(t.Context(), id, c); err == nil {
					won.Add(1)
				} else if api.KindOf(err) != api.KindConflict {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d hosts have the lease", won.Load())
		}
	})
}

// TestDamaged: a record that cannot be read is an error that says what to do, and a lease is taken after the expiry.
func TestDamaged(t *testing.T) {
	b := archive.Dir{Path: t.TempDir()}
	one, at, a := host("one", b)
	id := api.NewWorkspaceID()
	l, err := one.Acquire(t.Context(), id, a)
	must(t, err)
	for n := range 2 {
		_, err = one.Append(t.Context(), l, Version{Number: n + 1, Layers: []string{digest("a")}})
		must(t, err)
	}
	for _, text := range []string{"{", "null", strings.Repeat(" ", maxRecord) + "{}", `{"number":3}`} {
		must(t, b.Put(t.Context(), versionBlob(id, 2), strings.NewReader(text)))
		_, err = one.Last(t.Context(), id)
		wantKind(t, err, api.KindInvalid, "the version before is the last one")
		must(t, b.Put(t.Context(), leaseBlob(id, 1), strings.NewReader(text)))
		_, err = one.Acquire(t.Context(), id, a)
		wantKind(t, err, api.KindConflict, "another host")
		must(t, b.Put(t.Context(), nameBlob("", "shop"), strings.NewReader(text)))
		_, err = one.Find(t.Context(), "", "shop")
		wantKind(t, err, api.KindInvalid, "the name is free then")
	}
	at.add(DefaultExpiry)
	_, err = one.Acquire(t.Context(), id, a)
	must(t, err)
	must(t, b.Remove(t.Context(), versionBlob(id, 2)))
	if v, err := one.Last(t.Context(), id); err != nil || v.Number != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	// Blobs whose names have no valid number are not records.
	for _, n := range []string{"0", "01", "9999999999", "x", "3.tmp"} {
		must(t, b.Put(t.Context(), prefixOf(id)+"version-"+n+".json", strings.NewReader("{}")))
	}
	if v, err := one.Last(t.Context(), id); err != nil || v.Number != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestServerWithoutConditions: a server that replaces what is created twice is refused.
func TestServerWithoutConditions(t *testing.T) {
	r, _, _ := host("one", careless{archive.Dir{Path: t.TempDir()}})
	wantKind(t, r.Check(t.Context()), api.KindUnsupported, "If-None-Match")
}

type careless struct{ archive.Blobs }

func (c careless) Create(ctx context.Context, name string, b []byte) error {
	return c.Put(ctx, name, strings.NewReader(string(b)))
}

// FuzzRecords: whatever is in a record, what is accepted is within the limits.
func FuzzRecords(f *testing.F) {
	for _, r := range []any{
		Entry{Workspace: api.NewWorkspaceID(), Name: "shop", Host: "one"},
		Version{Number: 1, Lease: 1, Layers: []string{digest("a")}, Host: "one", Copy: rand.Text()},
		lease{Number: 1, Host: "one", Copy: rand.Text()},
	} {
		b, _ := json.Marshal(r)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v Version
		if err := parse(b, &v); err == nil && (v.Number < 1 || len(v.Layers) == 0 || len(v.Layers) > 16 || strings.ContainsAny(v.Host+strings.Join(v.Layers, ""), "/\n\x1b")) {
			t.Errorf("%+v", v)
		}
		var e Entry
		if err := parse(b, &e); err == nil && (!e.Workspace.Valid() || strings.ContainsAny(e.Host+e.Name, "/\n\x1b")) {
			t.Errorf("%+v", e)
		}
		var l lease
		if err := parse(b, &l); err == nil && (l.Number < 1 || strings.ContainsAny(l.Host+l.Copy, "/\n\x1b")) {
			t.Errorf("%+v", l)
		}
	})
}
