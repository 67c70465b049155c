package broker

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hortus.dev/api/secrets"
	"hortus.dev/internal/secret"
	"hortus.dev/internal/store/database"
)

// purse is a rig whose secret has budgets, which a real store keeps.
type purse struct {
	*rig
	secrets *secret.Secrets
	now     atomic.Int64 // seconds after began
	holder  string       // the placeholder
}

// began is not at the beginning of a day.
var began = time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)

func newPurse(t *testing.T, model secrets.Model, budgets ...string) *purse {
	t.Helper()
	db, err := database.OpenSQLite(t.Context(), database.SQLite{Path: filepath.Join(t.TempDir(), "db")})
	if err != nil {
		t.Fatal(err)
	}
	p := &purse{}
	clock := func() time.Time { return began.Add(time.Duration(p.now.Load()) * time.Second) }
	p.secrets = secret.New(secret.Config{Rows: db, Now: clock})
	t.Cleanup(func() {
		if err := p.secrets.Close(context.Background()); err != nil {
			t.Error(err)
		}
		db.Close()
	})
	p.rig = newRig(t, func(c *Config) { c.Reserve, c.Now = p.secrets.Reserve, clock })
	p.set(model, budgets...)
	return p
}

// set stores the secret and grants it.
func (p *purse) set(model secrets.Model, budgets ...string) {
	p.t.Helper()
	req := secrets.Set{Value: secretValue, Bindings: bearer("key").Bindings}
	req.Bindings[0].Model = model
	for _, text := range budgets {
		b, err := secrets.ParseBudget(text)
		if err != nil {
			p.t.Fatal(err)
		}
		req.Budgets = append(req.Budgets, b)
	}
	row, err := p.secrets.Set(p.t.Context(), "acc", "key", req)
	if err != nil {
		p.t.Fatal(err)
	}
	p.holder = p.grant(row)[0]
}

// spent is what the secret used altogether.
func (p *purse) spent() secrets.Amounts {
	p.t.Helper()
	row, err := p.secrets.Get(p.t.Context(), "acc", "key")
	if err != nil || row.Spent == nil {
		p.t.Fatalf("%+v, %v", row, err)
	}
	return row.Spent.Total
}

// send sends a request to a model.
func (p *purse) send(c *http.Client, path, body string, header ...string) (*http.Response, string) {
	p.t.Helper()
	resp, err := c.Do(request(p.t, "POST", "https://api.example.org"+path, strings.NewReader(body), append(header, "Authorization", "Bearer "+p.holder)...))
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, readAll(p.t, resp)
}

// TestBudgetOfModels has a budget that two answers use up, over each API, streamed and compressed.
func TestBudgetOfModels(t *testing.T) {
	for name, w := range wires() {
		for _, zip := range []bool{false, true} {
			for _, unit := range []string{"1500tokens", strconv.FormatFloat(float64(w.want.MicroUSD)*1.5/1e6, 'f', 6, 64) + "usd/total"} {
				t.Run(fmt.Sprintf("%s/zip=%v/%.4s", name, zip, unit), func(t *testing.T) {
					p := newPurse(t, w.model, unit)
					v := &vendor{wire: w, zip: zip, read: make(chan struct{})}
					p.https(v, "api.example.org:443")
					c := p.client(zip)
					for range 2 {
						resp, err := c.Do(request(t, "POST", "https://api.example.org"+w.path, strings.NewReader(`{"messages":"hello"}`),
							"Authorization", "Bearer "+p.holder, "Accept-Encoding", "gzip"))
						if err != nil || resp.StatusCode != 200 {
							t.Fatalf("%+v, %v", resp, err)
						}
						v.follow(t, resp.Body)
						readAll(t, resp)
					}
					want := secrets.Amounts{Requests: 2, Tokens: 2000, MicroUSD: 2 * w.want.MicroUSD}
					if got := p.spent(); got != want {
						t.Errorf("spent %+v, want %+v", got, want)
					}
					refused, used := p.alarms()
					if len(refused) != 0 || len(used) != 2 || used[0].Usage == nil || *used[0].Usage != w.want {
						t.Fatalf("%+v, %+v", refused, used)
					}
					resp, body := p.send(c, w.path, `{"messages":"hello"}`)
					if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("X-Should-Retry") != "false" || v.asked.Load() != 2 {
						t.Errorf("%d %v, %d requests", resp.StatusCode, resp.Header, v.asked.Load())
					}
					message := w.refusal(t, []byte(body))
					for _, part := range []string{p.row().Budgets[0].String(), "used up", "secret key", "hortus secret set key ... --budget"} {
						if !strings.Contains(message, part) {
							t.Errorf("%q does not say %q", message, part)
						}
					}
					refused, used = p.alarms()
					if len(refused) != 1 || len(used) != 0 || refused[0].Alarm() || refused[0].Budget != p.row().Budgets[0].String() || refused[0].Secret != "key" || refused[0].Sent != 0 {
						t.Errorf("%+v, %+v", refused, used)
					}
					// The control: a larger budget.
					p.set(w.model, "1000000requests")
					resp, err := c.Do(request(t, "POST", "https://api.example.org"+w.path, strings.NewReader(`{}`), "Authorization", "Bearer "+p.holder))
					if err != nil || resp.StatusCode != 200 {
						t.Fatalf("%+v, %v", resp, err)
					}
					v.follow(t, resp.Body)
					readAll(t, resp)
				})
			}
		}
	}
}

func (p *purse) row() secrets.Secret {
	p.t.Helper()
	row, err := p.secrets.Lookup(p.t.Context(), "acc", "key")
	if err != nil {
		p.t.Fatal(err)
	}
	return row
}

// TestBudgetAtOnce: of 50 requests at once, as many get through as the budget has.
func TestBudgetAtOnce(t *testing.T) {
	p := newPurse(t, "", "10requests")
	var s sink
	p.https(&s, "api.example.org:443")
	c := p.client(true)
	var ok, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			resp, err := c.Do(request(t, "GET", "https://api.example.org/", nil, "Authorization", "Bearer "+p.holder))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case 200:
				ok.Add(1)
			case http.StatusTooManyRequests:
				refused.Add(1)
			default:
				t.Error(resp.Status)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(s.take(), secretValue); ok.Load() != 10 || refused.Load() != 40 || n != 10 {
		t.Errorf("%d got through, %d were refused, the server got %d", ok.Load(), refused.Load(), n)
	}
	// Not each of them is recorded, and none is an alarm.
	over, used := p.alarms()
	if len(used) != 10 || len(over) == 0 || len(over) > maxOvers+1 {
		t.Errorf("%d and %d records", len(over), len(used))
	}
	for _, u := range over {
		if u.Alarm() {
			t.Errorf("%+v", u)
		}
	}
}

// TestBudgetIsShared by the sandboxes of a task, and by those of a root that have no task.
func TestBudgetIsShared(t *testing.T) {
	p := newPurse(t, "", "1requests")
	p.https(&sink{}, "api.example.org:443")
	row := p.row()
	send := func(o Owner) int {
		p.serve(o)
		p.holder = p.grant(row)[0]
		resp, _ := p.send(p.client(false), "/", "{}")
		return resp.StatusCode
	}
	for i, c := range []struct {
		owner Owner
		want  int
	}{
		{Owner{Sandbox: "parent", Account: "acc"}, 200},
		{Owner{Sandbox: "parent", Account: "acc"}, 429},
		{Owner{Sandbox: "fork", Root: "parent", Account: "acc"}, 429},
		{Owner{Sandbox: "other", Root: "other", Account: "acc"}, 200},
		{Owner{Sandbox: "a", Root: "a", Task: "t", Account: "acc"}, 200},
		{Owner{Sandbox: "b", Root: "b", Task: "t", Account: "acc"}, 429},
		{Owner{Sandbox: "a", Root: "a", Task: "t2", Account: "acc"}, 200},
	} {
		if got := send(c.owner); got != c.want {
			t.Errorf("%d: %+v: %d, want %d", i, c.owner, got, c.want)
		}
	}
}

// TestBudgetOfDay ends at midnight in UTC.
func TestBudgetOfDay(t *testing.T) {
	p := newPurse(t, "", "1requests/day")
	p.https(&sink{}, "api.example.org:443")
	c := p.client(false)
	for _, step := range []struct {
		at   int64
		want int
		wait string
	}{{0, 200, ""}, {60, 429, "3541"}, {3599, 429, "2"}, {3600, 200, ""}, {3601, 429, "86400"}} {
		p.now.Store(step.at)
		resp, _ := p.send(c, "/", "{}")
		if resp.StatusCode != step.want || resp.Header.Get("Retry-After") != step.wait {
			t.Errorf("after %d s: %d %v", step.at, resp.StatusCode, resp.Header)
		}
	}
}

// TestBudgetOfCutAnswer: a client that leaves does not get around the budget, nor one that asks for
// no usage.
func TestBudgetOfCutAnswer(t *testing.T) {
	w := wires()["Messages, streamed"]
	p := newPurse(t, w.model, "5000tokens")
	v := &vendor{wire: w, read: make(chan struct{})}
	p.https(v, "api.example.org:443")
	c := p.client(false)
	ctx, cancel := context.WithCancel(t.Context())
	req := request(t, "POST", "https://api.example.org/v1/messages", strings.NewReader(`{"max_tokens":7000}`), "Authorization", "Bearer "+p.holder).WithContext(ctx)
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	cancel()
	resp.Body.Close()
	// The next one waits until the first is charged.
	if resp, body := p.send(c, "/v1/messages", `{}`); resp.StatusCode != 429 || v.asked.Load() != 1 {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	_, used := p.alarms()
	if len(used) != 1 || used[0].Usage == nil || !used[0].Usage.Estimated || used[0].Usage.InputTokens != 600 || used[0].Usage.OutputTokens != 7000 {
		t.Errorf("%+v", used)
	}
}

// TestBudgetFailsClosed has requests that cannot be counted, with their controls.
func TestBudgetFailsClosed(t *testing.T) {
	p := newPurse(t, secrets.OpenAI, "100000tokens")
	var s sink
	p.https(&s, "api.example.org:443")
	c := p.client(false)
	socket := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Key", "x", "Sec-Websocket-Version", "13"}
	for name, header := range map[string][]string{"WebSocket": socket, "zstd": {"Content-Encoding", "zstd"}, "another method": {"X-Http-Method-Override", "GET"}} {
		resp, body := p.send(c, "/v1/responses", "{}", header...)
		if resp.StatusCode != http.StatusForbidden || s.take() != "" || !strings.Contains(body, "budget") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		if over, _ := p.alarms(); len(over) != 1 || over[0].Alarm() || over[0].Budget != "100000tokens/task" {
			t.Errorf("%s: %+v", name, over)
		}
	}
	if got := p.spent(); got != (secrets.Amounts{}) {
		t.Errorf("spent %+v", got)
	}
	// A placeholder in the body is an alarm, as without budgets.
	if resp, _ := p.send(c, "/v1/responses", `{"x":"`+p.holder+`"}`); resp.StatusCode != http.StatusForbidden || strings.Contains(s.take(), p.holder) {
		t.Error(resp.Status)
	}
	if over, _ := p.alarms(); len(over) != 1 || !over[0].Alarm() {
		t.Errorf("%+v", over)
	}
	// Compression that can be read.
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	io.WriteString(w, `{"model":"gpt-5.5","max_output_tokens":9,"input":"`+strings.Repeat("x", 5000)+`"}`)
	w.Close()
	if resp, _ := p.send(c, "/v1/responses", z.String(), "Content-Encoding", "gzip"); resp.StatusCode != 200 || !strings.Contains(s.take(), z.String()) {
		t.Error(resp.Status)
	}
	_, used := p.alarms()
	if len(used) != 1 || used[0].Usage == nil || used[0].Usage.InputTokens < 5000 || used[0].Usage.OutputTokens != 9 || used[0].Usage.Model != "gpt-5.5" || !used[0].Usage.Estimated {
		t.Errorf("%+v", used)
	}
	// A budget of requests counts these too.
	p.set(secrets.OpenAI, "5requests/day")
	for _, header := range [][]string{socket, {"Content-Encoding", "zstd"}} {
		if resp, body := p.send(c, "/v1/responses", "{}", header...); resp.StatusCode != 200 || s.take() == "" {
			t.Errorf("%v: %d %s", header, resp.StatusCode, body)
		}
	}
	// Without what counts, nothing is sent.
	p.broker.cfg.Reserve = nil
	if resp, _ := p.send(c, "/v1/responses", "{}"); resp.StatusCode != http.StatusBadGateway || s.take() != "" {
		t.Error(resp.Status)
	}
}

// TestBudgetOfFailures: what was not sent, and what the server refused, used no tokens.
func TestBudgetOfFailures(t *testing.T) {
	p := newPurse(t, secrets.OpenAI, "100000tokens", "100requests")
	c := p.client(false)
	if resp, _ := p.send(c, "/v1/responses", "{}"); resp.StatusCode != http.StatusBadGateway {
		t.Error(resp.Status)
	}
	if got := p.spent(); got != (secrets.Amounts{}) {
		t.Errorf("no server: %+v", got)
	}
	p.https(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/embeddings" {
			panic(http.ErrAbortHandler)
		}
		http.Error(w, `{"error":{}}`, http.StatusUnauthorized)
	}), "api.example.org:443")
	if resp, _ := p.send(c, "/v1/responses", "{}"); resp.StatusCode != http.StatusUnauthorized {
		t.Error(resp.Status)
	}
	if got := p.spent(); got != (secrets.Amounts{Requests: 1}) {
		t.Errorf("a refusal: %+v", got)
	}
	if resp, _ := p.send(c, "/v1/embeddings", "{}"); resp.StatusCode != http.StatusBadGateway {
		t.Error(resp.Status)
	}
	if got := p.spent(); got.Requests != 2 || got.Tokens != 2 || got.MicroUSD == 0 {
		t.Errorf("no answer: %+v", got)
	}
}

// TestBudgetOfLargeRequest has a body that is larger than what is read of it before it is sent.
func TestBudgetOfLargeRequest(t *testing.T) {
	p := newPurse(t, secrets.OpenAI, "10000000tokens")
	var s sink
	p.https(&s, "api.example.org:443")
	body := `{"input":"` + strings.Repeat("x", maxPeek+100_000) + `","model":"gpt-5.5","max_output_tokens":9}`
	if resp, _ := p.send(p.client(true), "/v1/responses", body); resp.StatusCode != 200 || !strings.Contains(s.take(), body) {
		t.Error(resp.Status)
	}
	_, used := p.alarms()
	if len(used) != 1 || used[0].Sent != int64(len(body)) || used[0].Usage.InputTokens != int64(len(body)) || used[0].Usage.OutputTokens != 9 || used[0].Usage.Model != "gpt-5.5" {
		t.Errorf("%+v, %+v", used, used[0].Usage)
	}
}
