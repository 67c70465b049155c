package daemon

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/internal/daemon"
	"hortus.dev/internal/store"
	"hortus.dev/test/world"
)

// allocated returns the bytes that a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestListsComeInPages lists two thousand rows of 4 KiB each. No answer is large, and
// the daemon has no more of them at a time than one page.
func TestListsComeInPages(t *testing.T) {
	w := newTownOf(t, daemon.Config{}) // not in parallel: it counts what this process allocates
	const many = 2000
	labels := map[string]string{"a": strings.Repeat("v", api.MaxLabelValue)}
	began := time.Now().UTC().Add(-time.Hour)
	for i := range many {
		row := api.Sandbox{ID: api.NewSandboxID(), State: api.SandboxEnded, Account: "alice", CreatedAt: began.Add(time.Duration(i) * time.Millisecond), EndedAt: began, Labels: labels}
		world.OK(t, w.DB.InsertSandbox(t.Context(), row))
	}
	page := func(query string) (rows []api.Sandbox, next string, size int) {
		t.Helper()
		req := world.Must(http.NewRequestWithContext(t.Context(), "GET", w.URL+"/v1/sandboxes?all=true"+query, nil))(t)
		req.Header.Set("X-API-KEY", w.alice.Secret)
		resp := world.Must(http.DefaultTransport.RoundTrip(req))(t)
		defer resp.Body.Close()
		var raw json.RawMessage
		if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil || json.Unmarshal(raw, &rows) != nil {
			t.Fatalf("%s: %s, %v", query, resp.Status, err)
		}
		return rows, resp.Header.Get("X-Next-Cursor"), len(raw)
	}
	if rows, next, _ := page(""); len(rows) != api.DefaultPage || next == "" {
		t.Errorf("by default %d rows, next %q", len(rows), next)
	}
	seen := map[api.SandboxID]bool{}
	pages := 0
	for query := "&limit=1000"; query != ""; {
		rows, next, size := page(query)
		if size > store.MaxPageBytes+1<<20 {
			t.Errorf("a page of %d bytes", size)
		}
		for _, s := range rows {
			seen[s.ID] = true
		}
		pages++
		if query = ""; next != "" {
			query = "&limit=1000&cursor=" + next
		}
	}
	if len(seen) != many+1 || pages < 3 {
		t.Errorf("%d rows in %d pages", len(seen), pages)
	}
	// What a request costs does not grow with what is stored. The control reads all rows.
	db := w.DB
	one := allocated(func() {
		if _, _, err := db.SandboxPage(t.Context(), "alice", true, api.PageRequest{Limit: api.MaxPage}); err != nil {
			t.Fatal(err)
		}
	})
	all := allocated(func() {
		for _, err := range api.Pages(t.Context(), func(ctx context.Context, p api.PageRequest) ([]api.Sandbox, string, error) {
			return db.SandboxPage(ctx, "alice", true, p)
		}) {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("a page allocates %d KiB, the whole list %d KiB", one>>10, all>>10)
	if one > 32<<20 || all < 2*one {
		t.Errorf("a page allocates %d bytes, the whole list %d", one, all)
	}
	for _, query := range []string{"&limit=0", "&limit=1001", "&limit=x", "&cursor=x", "&cursor=" + strings.Repeat("a", 500)} {
		if status, answer := w.Call("GET", "/v1/sandboxes?all=true"+query, "", "X-API-KEY", w.alice.Secret); status != http.StatusBadRequest {
			t.Errorf("%s: %d %.200s", query, status, answer)
		}
	}
	// The SDK walks the pages.
	c := world.Must(client.Remote(w.URL, w.alice.Secret))(t)
	defer c.Close()
	if list, err := c.Sandboxes.List(t.Context(), true); err != nil || len(list) != many+1 {
		t.Errorf("the SDK: %d rows, %v", len(list), err)
	}
	n := 0
	for _, err := range c.Sandboxes.All(t.Context(), true) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 150 {
			break
		}
	}
	if n != 150 {
		t.Errorf("%d rows of the first 150", n)
	}
}
