package e2b_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/e2b"
)

// TestPages walks through a list, in both directions, while sandboxes come and go.
func TestPages(t *testing.T) {
	w := newWorld(t, nil)
	var ids []string
	for i := range 5 {
		ids = append(ids, w.make(t, fmt.Sprintf(`{"templateID":"base","metadata":{"n":"%d","user id":"a&b=c%%25"}}`, i)))
	}
	page := func(query string) (got []string, next string) {
		r := w.ask(t, "GET", "/v2/sandboxes?"+query, "")
		var all []struct{ SandboxID string }
		if err := json.Unmarshal([]byte(r.body), &all); err != nil || r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", query, r.status, r.body)
		}
		for _, s := range all {
			got = append(got, s.SandboxID)
		}
		return got, r.header.Get("X-Next-Token")
	}
	walk := func(query string) (got []string) {
		next := ""
		for range 20 {
			var some []string
			some, next = page(query + "&nextToken=" + next)
			if got = append(got, some...); next == "" {
				return got
			}
		}
		t.Fatal("the list has no end")
		return nil
	}
	newest := slices.Clone(ids)
	slices.Reverse(newest)
	for limit := 1; limit <= 6; limit++ {
		if got := walk(fmt.Sprintf("limit=%d", limit)); !slices.Equal(got, newest) {
			t.Errorf("by %d: %v, want %v", limit, got, newest)
		}
		if got := walk(fmt.Sprintf("limit=%d&order=asc", limit)); !slices.Equal(got, ids) {
			t.Errorf("by %d, the oldest first: %v, want %v", limit, got, ids)
		}
	}
	some, next := page("limit=2")
	for _, id := range []string{ids[4], ids[1]} { // one before the page's end, one behind it
		if r := w.ask(t, "DELETE", "/sandboxes/"+id, ""); r.status != http.StatusNoContent {
			t.Fatal(r)
		}
	}
	extra := w.make(t, `{"templateID":"base"}`)
	rest, next := page("limit=2&nextToken=" + next)
	if want := []string{ids[2], ids[0]}; !slices.Equal(some, newest[:2]) || !slices.Equal(rest, want) || next != "" || slices.Contains(rest, extra) {
		t.Errorf("%v, then %v, %q; want %v", some, rest, next, want)
	}

	// As the SDK encodes it: each key and value, the pairs, and the address.
	encoded := url.QueryEscape(url.Values{url.PathEscape("user id"): {url.QueryEscape("a&b=c%25")}, "n": {"3"}}.Encode())
	if got, _ := page("metadata=" + encoded); !slices.Equal(got, []string{ids[3]}) {
		t.Errorf("by metadata %s: %v", encoded, got)
	}
	s, err := w.Sandboxes.Get(t.Context(), api.SandboxID(ids[3]))
	if err != nil {
		t.Fatal(err)
	}
	at := s.CreatedAt.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
	if got, _ := page("startedAfter=" + at); !slices.Equal(got, []string{extra, ids[3]}) {
		t.Errorf("started from %s: %v", at, got)
	}
	for query, want := range map[string]int{
		"state=running": 4, "state=paused": 0, "state=running,paused": 4, "state=running&state=paused": 4,
		"template=base": 4, "template=host": 4, "template=base%3Adefault": 4, "template=nosuch": 0, "template=base%3Av2": 0, "template=A%20B": 0,
		"metadata=n%3D3%26n%3D4": 0, "metadata=": 4,
	} {
		if got, _ := page(query); len(got) != want {
			t.Errorf("%s: %v; want %d", query, got, want)
		}
	}
}

// TestLogs checks what ran, from the records of commands.
func TestLogs(t *testing.T) {
	w := newWorld(t, nil)
	id := w.make(t, `{"templateID":"base"}`)
	for _, script := range []string{"exit 0", "exit 3 # " + strings.Repeat("long ", 1000)} {
		s, err := w.Guests.StartExec(t.Context(), api.SandboxID(id), api.ExecRequest{Args: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = s.Next()
		}
	}
	read := func(query string) []string {
		r := w.ask(t, "GET", "/v2/sandboxes/"+id+"/logs?"+query, "")
		var got struct {
			Logs []struct{ Message, Level string }
		}
		if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusOK || len(r.body) > 16<<10 {
			t.Fatalf("%s: %d %s", query, r.status, r.body)
		}
		var out []string
		for _, e := range got.Logs {
			out = append(out, e.Level+" "+strings.Join(strings.Fields(e.Message)[:3], " "))
		}
		return out
	}
	all := []string{"info created: isolation process,", "info started: sh -c", "info ended with 0:", "info started: sh -c", "warn ended with 3:"}
	back := slices.Clone(all)
	slices.Reverse(back)
	for query, want := range map[string][]string{
		"": all, "direction=forward": all, "direction=backward": back, "level=warn": all[4:], "level=error": nil, "search=ended": {all[2], all[4]},
		"limit=1": all[:1], "limit=0": nil, "cursor=0": all, "cursor=99999999999999": nil, "cursor=99999999999999&direction=backward": back,
	} {
		if got := read(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	// E2B's command line reads each line of the old form as JSON.
	r := w.ask(t, "GET", "/sandboxes/"+id+"/logs?limit=3", "")
	var old struct {
		Logs       []struct{ Line string }
		LogEntries []struct{ Message, Level string }
	}
	if err := json.Unmarshal([]byte(r.body), &old); err != nil || len(old.Logs) != 3 || len(old.LogEntries) != 3 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	for i, l := range old.Logs {
		var said struct{ Level, Logger, Message string }
		if err := json.Unmarshal([]byte(l.Line), &said); err != nil || said.Level != old.LogEntries[i].Level || said.Logger == "" || said.Message != old.LogEntries[i].Message {
			t.Errorf("%q: %v", l.Line, err)
		}
	}
}

// The word of clients that ask for the internet in every call is not taken in silence.
func TestLogSaysThatThereIsNoInternet(t *testing.T) {
	for egress, want := range map[string]bool{"none": true, "open": false} {
		e := e2b.EntriesOf(api.Sandbox{Isolation: "container", Template: "host", Egress: egress}, nil)
		if got := strings.Contains(e[0], "allow_internet_access is false"); got != want {
			t.Errorf("egress %s: %q", egress, e)
		}
	}
}
