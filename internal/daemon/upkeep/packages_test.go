package upkeep

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api/admin"
	"hortus.dev/internal/egress/registrycache"
)

// answering answers every request.
type answering struct{}

// RoundTrip implements http.RoundTripper.
func (answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: 7, Body: io.NopCloser(strings.NewReader("package")), Request: r}, nil
}

func TestPackages(t *testing.T) {
	w := newWorld(t)
	cache, err := registrycache.New(registrycache.Config{Dir: filepath.Join(w.dir, "packages")})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	at := time.Now()
	keeper := w.keeper()
	keeper.cfg.Packages, keeper.cfg.Now = cache, func() time.Time { return at }
	taken := func(dry bool) (items int, bytes int64) {
		t.Helper()
		got, err := keeper.Collect(t.Context(), admin.CollectRequest{DryRun: dry})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range got.Items {
			if it.Part == admin.PartPackages {
				items, bytes = items+1, bytes+it.Bytes
			}
		}
		return items, bytes
	}
	if n, _ := taken(false); n != 0 {
		t.Errorf("%d were taken of a cache that is not there", n)
	}
	fill := func() {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://example.org/p/-/p-1.tgz", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := cache.RoundTrip(req, "zone", answering{})
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fill()
	part := func() (p admin.DiskPart) {
		t.Helper()
		usage, err := keeper.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p = range usage.Parts {
			if p.Name == admin.PartPackages {
				return p
			}
		}
		return p
	}
	if p := part(); p.Count != 1 || p.Bytes == 0 || p.ReclaimableBytes != 0 {
		t.Errorf("used just now: %+v", p)
	}
	at = at.Add(admin.DefaultKeep + time.Hour)
	if p := part(); p.ReclaimableBytes != 7 {
		t.Errorf("unused: %+v", p)
	}
	if n, bytes := taken(false); n != 1 || bytes != 7 {
		t.Errorf("took %d items, %d bytes", n, bytes)
	}
	if p := part(); p.Count != 0 {
		t.Errorf("afterwards: %+v", p)
	}
	// When it is switched off, all of it goes.
	fill()
	cache.Close()
	keeper.cfg.Packages = nil
	if n, bytes := taken(true); n != 1 || bytes == 0 {
		t.Errorf("switched off: %d items, %d bytes", n, bytes)
	}
	if taken(false); part().Bytes != 0 {
		t.Error("it is still there")
	}
}
