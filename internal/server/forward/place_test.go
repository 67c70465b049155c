package forward_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"hortus.dev/api"
)

// TestPlace: a new thing is made by the first node that has capacity. If none has, it waits at the first.
func TestPlace(t *testing.T) {
	for name, tt := range map[string]struct {
		// nodes are those of Choose in their order, 0 is the node that the client reached. full and dead are those without
		// capacity, and those that do not answer.
		nodes, full, dead string
		kind              string
		want              string
	}{
		"the first":                        {"120", "", "", "sandbox", "node-1 made sandbox"},
		"this node":                        {"012", "", "", "sandbox", "node-0 made sandbox"},
		"this node alone":                  {"0", "0", "", "sandbox", "node-0 waited for sandbox"},
		"the next if it is full":           {"120", "1", "", "sandbox", "node-2 made sandbox"},
		"the next if this is full":         {"021", "0", "", "sandbox", "node-2 made sandbox"},
		"the last":                         {"120", "12", "", "sandbox", "node-0 made sandbox"},
		"the next if it is dead":           {"120", "", "1", "sandbox", "node-2 made sandbox"},
		"wait at the first":                {"120", "120", "", "sandbox", "node-1 waited for sandbox"},
		"wait at this":                     {"012", "012", "", "sandbox", "node-0 waited for sandbox"},
		"wait at the first that answers":   {"120", "20", "1", "sandbox", "node-2 waited for sandbox"},
		"a task waits inside of its node":  {"120", "1", "", "task", "node-1 waited for task"},
		"a task elsewhere than a dead one": {"12", "", "1", "task", "node-2 made task"},
		"nobody answers":                   {"12", "", "12", "sandbox", "none of the 2 nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			fl := open(t, 3)
			for _, i := range tt.nodes {
				fl.order = append(fl.order, fl.nodes[i-'0'].ID)
			}
			for i, n := range fl.nodes {
				full := strings.Contains(tt.full, fmt.Sprint(i))
				if strings.Contains(tt.dead, fmt.Sprint(i)) {
					n.peers.Close()
				}
				n.handle = func(w http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					if string(body) != "what is made" || err != nil || r.ContentLength != int64(len(body)) {
						t.Errorf("the body is %q, %v", body, err)
					}
					w.Header().Set("Location", n.Name)
					switch refused := api.RefusedOf(r.Context()); {
					case !full:
						w.WriteHeader(201)
						fmt.Fprintf(w, "%s made %s", n.Name, strings.TrimPrefix(r.URL.Path, "/new/"))
					case refused != nil:
						refused()
						w.WriteHeader(429)
					default:
						fmt.Fprintf(w, "%s waited for %s", n.Name, strings.TrimPrefix(r.URL.Path, "/new/"))
					}
				}
			}
			status, answer, h := fl.nodes[0].get("POST", "/new/"+tt.kind, "what is made")
			if !strings.HasPrefix(answer, tt.want) || status < 300 && h.Get("Location") != answer[:6] || len(h.Values("Location")) > 1 || len(h.Values("Hortus-Node-Full")) > 0 {
				t.Errorf("%d %q %v, want %q", status, answer, h, tt.want)
			}
		})
	}
}

// TestRoom: a request that waits is placed again when another node seems to have capacity. If none has it after all, again and again, the request waits where it is at last.
func TestRoom(t *testing.T) {
	for name, tt := range map[string]struct {
		nodes string // in their order, 0 is the node that the client reached
		never bool   // the other node refuses all the same
		want  string
	}{
		"it waits at another node": {"102", false, "node-2 made sandbox"},
		"it waits here":            {"012", false, "node-2 made sandbox"},
		"none has it":              {"102", true, "node-1 waited for sandbox"},
		"none has it, and here":    {"012", true, "node-0 waited for sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			fl := open(t, 3)
			for _, i := range tt.nodes {
				fl.order = append(fl.order, fl.nodes[i-'0'].ID)
			}
			var joined atomic.Bool // node 2 has capacity
			var waits atomic.Int64
			fl.room = func() bool {
				joined.Store(!tt.never)
				return true
			}
			for i, n := range fl.nodes {
				n.handle = func(w http.ResponseWriter, r *http.Request) {
					if body, err := io.ReadAll(r.Body); string(body) != "what is made" || err != nil {
						t.Errorf("the body is %q, %v", body, err)
					}
					now := api.RefusedOf(r.Context())
					room, later := api.ElsewhereOf(r.Context())
					switch {
					case i == 2 && joined.Load():
						fmt.Fprintf(w, "%s made sandbox", n.Name)
					case now != nil:
						now()
						w.WriteHeader(429)
					case room != nil && room():
						waits.Add(1)
						later()
						w.WriteHeader(429)
					default:
						fmt.Fprintf(w, "%s waited for sandbox", n.Name)
					}
				}
			}
			status, answer, h := fl.nodes[0].get("POST", "/new/sandbox", "what is made")
			if status != 200 || answer != tt.want || len(h.Values("Hortus-Node-Full")) > 0 {
				t.Errorf("%d %q, want %q", status, answer, tt.want)
			}
			if n := waits.Load(); tt.never != (n > 1) || n == 0 {
				t.Errorf("it waited %d times", n)
			}
		})
	}
}

// TestPlaceErrors: an error that is not for want of capacity is the answer, and a body that is too long reaches the door whole.
func TestPlaceErrors(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.order = []api.NodeID{b.ID, a.ID}
	b.handle = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) } // of the account
	if status, _, _ := a.get("POST", "/new/sandbox", "x"); status != 429 || a.served.Load() != 0 {
		t.Errorf("%d, %d requests here", status, a.served.Load())
	}
	a.handle = func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}
	if _, answer, _ := a.get("POST", "/new/sandbox", strings.Repeat("x", 5<<20)); answer != fmt.Sprint(5<<20, " <nil>") {
		t.Errorf("%q", answer)
	}
}

// TestDraining: a node that drains is not asked twice, whatever the first node knows.
func TestDraining(t *testing.T) {
	fl := open(t, 2)
	a, b := fl.nodes[0], fl.nodes[1]
	fl.order = []api.NodeID{b.ID, a.ID}
	b.draining = true
	for _, kind := range []string{"sandbox", "task"} {
		if status, answer, _ := a.get("POST", "/new/"+kind, "x"); status != 200 || !strings.HasPrefix(answer, "node-0") || b.served.Load() != 0 {
			t.Errorf("%s: %d %q", kind, status, answer)
		}
	}
	fl.order = []api.NodeID{b.ID}
	if status, answer, _ := a.get("POST", "/new/sandbox", "x"); status != 502 || !strings.Contains(answer, "none of the 1 nodes that could serve the request takes something new") {
		t.Errorf("%d %q", status, answer)
	}
	b.peers.Close()
	if status, answer, _ := a.get("POST", "/new/sandbox", "x"); status != 502 || !strings.Contains(answer, "none of the 1 nodes that could serve the request answers") {
		t.Errorf("%d %q", status, answer)
	}
}
