package forward_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"hortus.dev/api"
)

// TestTold: the node that a client reached hears for what its request waits at another one, if it wants to. The client gets the answer alone.
func TestTold(t *testing.T) {
	event := func(name string) api.WaitingEvent {
		return api.WaitingEvent{Cause: api.WaitDisk, Why: name + " has 1 GiB", Position: 2, Of: 3}
	}
	for name, tt := range map[string]struct {
		path   string
		deaf   bool   // nobody wants to know
		moves  bool   // node 2 has capacity once the request has waited
		answer string // of node 1, in interim answers; empty if it tells what it waits for
		want   string
		told   []string
	}{
		"of a new thing":         {"/new/sandbox", false, false, "", "node-1 waited", []string{"node-1 has 1 GiB"}},
		"of a thing":             {"/things/x", false, false, "", "node-1 waited", []string{"node-1 has 1 GiB"}},
		"nobody wants to know":   {"/new/sandbox", true, false, "", "node-1 waited", nil},
		"made at another node":   {"/new/sandbox", false, true, "", "node-2 made", []string{"node-1 has 1 GiB"}},
		"no event":               {"/new/sandbox", false, false, base64.StdEncoding.EncodeToString([]byte("{}")), "node-1 waited", nil},
		"no JSON":                {"/new/sandbox", false, false, base64.StdEncoding.EncodeToString([]byte("<p>")), "node-1 waited", nil},
		"no base64":              {"/new/sandbox", false, false, "!", "node-1 waited", nil},
		"more than an event has": {"/new/sandbox", false, false, base64.StdEncoding.EncodeToString([]byte(`{"cause":"disk","why":"` + strings.Repeat("x", 8<<10) + `"}`)), "node-1 waited", nil},
	} {
		t.Run(name, func(t *testing.T) {
			fl := open(t, 3)
			fl.at["x"] = fl.nodes[1].ID
			fl.order = []api.NodeID{fl.nodes[1].ID, fl.nodes[2].ID}
			fl.room = func() bool { return tt.moves }
			waited := false
			for i, n := range fl.nodes {
				n.handle = func(w http.ResponseWriter, r *http.Request) {
					room, later := api.ElsewhereOf(r.Context())
					switch told, refused := api.WaitToldOf(r.Context()), api.RefusedOf(r.Context()); {
					case i == 2 && waited && tt.moves:
						fmt.Fprint(w, "node-2 made")
					case refused != nil:
						refused()
						w.WriteHeader(429)
					case i != 1:
						t.Error("it is served by ", n.Name)
					case (told == nil) != tt.deaf:
						t.Errorf("told is nil: %t", told == nil)
					default:
						waited = true
						if tt.answer != "" {
							w.Header().Set("Hortus-Node-Waits", tt.answer)
							w.WriteHeader(http.StatusProcessing)
							w.Header().Del("Hortus-Node-Waits")
							w.Header().Set("Link", "</evil>")
							w.WriteHeader(http.StatusEarlyHints)
							w.Header().Del("Link")
						} else if told != nil {
							told(event(n.Name))
						}
						if room != nil && room() {
							later()
							w.WriteHeader(429)
							return
						}
						w.Header().Set("Location", n.Name)
						fmt.Fprint(w, "node-1 waited")
					}
				}
			}
			var told []string
			if !tt.deaf {
				fl.nodes[0].told = func(e api.WaitingEvent) {
					if told = append(told, e.Why); e != event("node-1") {
						t.Errorf("%+v", e)
					}
				}
			}
			status, answer, h := fl.nodes[0].get("POST", tt.path, "what is made")
			if status != 200 || answer != tt.want || !slices.Equal(told, tt.told) {
				t.Errorf("%d %q, told %q; want %q, told %q", status, answer, told, tt.want, tt.told)
			}
			if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Link") != "" || h.Get("Hortus-Node-Waits") != "" || !tt.moves && h.Get("Location") != "node-1" {
				t.Errorf("%v", h)
			}
		})
	}
}
