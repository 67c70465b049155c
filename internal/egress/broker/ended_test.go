package broker

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api/secrets"
)

// clock is a clock that is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }

func (c *clock) add(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.at = c.at.Add(d) }

// TestEnds: a grant can be used until its end, over a connection that was used before too, and never after it. What is
// refused is recorded with the name of the secret.
func TestEnds(t *testing.T) {
	k := &clock{at: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
	r := newRig(t, func(c *Config) { c.Now = k.now })
	var s sink
	r.https(&s, "api.example.org:443")
	r.values["a"], r.values["b"] = secretValue, secretValue+"-b"
	one, two, gone := NewPlaceholder(), NewPlaceholder(), NewPlaceholder()
	grants := []Grant{
		{Placeholder: one, Secret: bearer("a"), EndsAt: k.now().Add(time.Hour)},
		{Placeholder: two, Secret: bearer("b")},
		{Placeholder: gone, Secret: secrets.Secret{Name: "c"}, Ended: "the secret was removed"},
	}
	if err := r.session.SetGrants(grants); err != nil {
		t.Fatal(err)
	}
	c := r.client(true)
	send := func(placeholder string) (int, string) {
		t.Helper()
		resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+placeholder))
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, readAll(t, resp)
	}
	refused := func(placeholder, name, why string) {
		t.Helper()
		status, body := send(placeholder)
		alarms, used := r.alarms()
		if status != 403 || !strings.Contains(body, name) || !strings.Contains(body, why) {
			t.Errorf("%s: status %d, %s", name, status, body)
		}
		if len(used) != 0 || len(alarms) != 1 || alarms[0].Secret != name || alarms[0].Refused != why {
			t.Errorf("%s: used %+v, alarms %+v", name, used, alarms)
		}
	}
	allowed := func(placeholder string) {
		t.Helper()
		if status, body := send(placeholder); status != 200 {
			t.Errorf("status %d, %s", status, body)
		}
		if alarms, used := r.alarms(); len(alarms) != 0 || len(used) != 1 {
			t.Errorf("used %+v, alarms %+v", used, alarms)
		}
	}
	refused(gone, "c", "the secret was removed")
	refused(strings.ToUpper(gone), "c", "the secret was removed")
	allowed(one)
	k.add(time.Hour - 1)
	allowed(one)
	k.add(1)
	refused(one, "a", "the grant of the secret ended at 2026-01-02T04:00:00Z")
	allowed(two)
	// A session that begins later, as after a restart, knows it too.
	if err := r.session.SetGrants(grants); err != nil {
		t.Fatal(err)
	}
	refused(one, "a", "the grant of the secret ended at 2026-01-02T04:00:00Z")
	// Where it may not be, the placeholder of an ended grant is known as well.
	r.https(&s, "other.example.org:443")
	resp, err := c.Do(request(t, "POST", "https://other.example.org/", strings.NewReader(gone)))
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if alarms, _ := r.alarms(); len(alarms) == 0 || alarms[len(alarms)-1].Secret != "c" {
		t.Errorf("in a body: %+v", alarms)
	}
	if strings.Contains(s.take(), "hortus-secret-") {
		t.Error("a placeholder was sent")
	}
}

// TestWebSocketEnds: nothing passes a WebSocket after the end of the grant that it was opened with, in either direction.
func TestWebSocketEnds(t *testing.T) {
	for _, from := range []string{"client", "server", "control"} {
		t.Run(from, func(t *testing.T) {
			k := &clock{at: time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)}
			r := newRig(t, func(c *Config) { c.Now = k.now })
			push, got := make(chan struct{}), make(chan byte, 1)
			r.http(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				c, brw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer c.Close()
				io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				<-push
				if from != "client" {
					c.Write([]byte(frame(0x81, false, "pushed")))
				}
				if b, err := brw.ReadByte(); err == nil {
					got <- b
				}
				close(got)
			}), "api.example.org:80")
			secret := bearer("a")
			secret.Bindings[0].Scheme = "http"
			r.values["a"] = secretValue
			p := NewPlaceholder()
			if err := r.session.SetGrants([]Grant{{Placeholder: p, Secret: secret, EndsAt: k.now().Add(time.Hour)}}); err != nil {
				t.Fatal(err)
			}
			c := r.open("api.example.org:80")
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: api.example.org\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: %s\r\n\r\n", p)
			br := bufio.NewReader(c)
			if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 101 {
				t.Fatal(resp, err)
			}
			if from != "control" {
				k.add(time.Hour)
			}
			close(push)
			if from == "control" {
				if b, err := br.Peek(8); err != nil || string(b) != frame(0x81, false, "pushed") {
					t.Fatalf("%q %v", b, err)
				}
			}
			if from != "server" {
				io.WriteString(c, frame(0x81, true, "x"))
			}
			if from == "control" {
				if _, ok := <-got; !ok {
					t.Error("the server got nothing")
				}
				return
			}
			if b, err := io.ReadAll(br); err != nil || len(b) > 0 {
				t.Errorf("%q %v", b, err)
			}
			if b, ok := <-got; ok {
				t.Errorf("the server got %#x", b)
			}
			if alarms, _ := r.alarms(); len(alarms) != 1 || alarms[0].Secret != "a" || !strings.Contains(alarms[0].Refused, "ended at") {
				t.Errorf("alarms %+v", alarms)
			}
		})
	}
}
