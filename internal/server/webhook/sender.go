package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
)

const (
	// maxRunning is the maximum number of attempts at the same time, and maxOfAccount those of one account.
	maxRunning   = 32
	maxOfAccount = 4
	// pause follows a failure of the store.
	pause     = 5 * time.Second
	maxHeader = 64 << 10
	maxError  = 300
)

// delays are the times between the attempts of one event, which are one more.
func delays() []time.Duration {
	return []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute}
}

// sender delivers events. Its goroutine owns all fields but the channels.
type sender struct {
	cfg   Config
	wake  chan struct{}
	ended chan attempt
	// cancel ends the goroutine and all attempts; done is closed after them.
	cancel context.CancelFunc
	done   chan struct{}

	states  map[string]*state
	running int
	turn    int
}

// state is what is known of a webhook beside its row.
type state struct {
	account string
	busy    bool
	// event is the one that is tried, and tries how often it failed. The next attempt is not before next.
	event int64
	tries int
	next  time.Time
	// seen is the Seq up to which there is nothing for it, and turn when it last had an attempt.
	seen int64
	turn int
}

// attempt is an attempt that ended.
type attempt struct {
	delivery api.WebhookDelivery
	state    *state
}

func startSender(cfg Config) *sender {
	ctx, cancel := context.WithCancel(context.Background())
	s := &sender{
		cfg: cfg, wake: make(chan struct{}, 1), ended: make(chan attempt), cancel: cancel, done: make(chan struct{}), states: map[string]*state{},
	}
	go s.run(ctx)
	return s
}

func (s *sender) stop() {
	s.cancel()
	<-s.done
}

func (s *sender) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // the next look sees this event too
	}
}

func (s *sender) run(ctx context.Context) {
	defer close(s.done)
	for {
		var later <-chan time.Time
		wait, err := s.lead(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("cannot deliver lifecycle events", "error", err)
			wait = pause
		}
		if wait > 0 {
			later = s.cfg.After(wait)
		}
		select {
		case <-s.wake:
		case <-later:
		case a := <-s.ended:
			s.note(ctx, a)
		case <-ctx.Done():
			for ; s.running > 0; s.running-- {
				<-s.ended // it was cut: the next daemon makes it again
			}
			return
		}
	}
}

// leadEvery is how often a daemon asks whether it delivers, and looks for events of others that share the rows.
const leadEvery = 2 * time.Second

// lead is start in the daemon that delivers. The others wait.
func (s *sender) lead(ctx context.Context) (wait time.Duration, err error) {
	if s.cfg.Lead == nil {
		return s.start(ctx)
	}
	switch leads, err := s.cfg.Lead(ctx); {
	case err != nil:
		return 0, err
	case !leads:
		return leadEvery, nil
	}
	if wait, err = s.start(ctx); wait == 0 || wait > leadEvery {
		wait = leadEvery
	}
	return wait, err
}

// start starts the attempts that are due, and returns the time until the next is; 0 if none is known.
func (s *sender) start(ctx context.Context) (wait time.Duration, err error) {
	newest, err := s.cfg.Rows.NewestLifecycle(ctx)
	if err != nil {
		return 0, err
	}
	hooks, err := s.cfg.Rows.EnabledWebhooks(ctx)
	if err != nil {
		return 0, err
	}
	known, of := map[string]*state{}, map[string]int{}
	for id, st := range s.states { // of those that were removed, only attempts count
		if st.busy {
			known[id] = st
			of[st.account]++
		}
	}
	for _, w := range hooks {
		if known[w.ID] == nil {
			known[w.ID] = s.states[w.ID]
		}
		if known[w.ID] == nil {
			known[w.ID] = &state{account: w.Account}
		}
	}
	s.states = known
	// Who waited longest is the first, so that no account can hold all attempts.
	slices.SortStableFunc(hooks, func(a, b api.Webhook) int { return known[a.ID].turn - known[b.ID].turn })
	for _, w := range hooks {
		st := known[w.ID]
		if st.busy || max(st.seen, w.Position) >= newest {
			continue
		}
		if rest := st.next.Sub(s.cfg.Now()); rest > 0 {
			if wait == 0 || rest < wait {
				wait = rest
			}
			continue
		}
		if s.running >= maxRunning || of[w.Account] >= maxOfAccount {
			continue // an attempt that ends leads here again
		}
		events, err := s.cfg.Rows.LifecycleEvents(ctx, api.LifecycleFilter{
			Account: w.Account, Types: w.Events, After: max(st.seen, w.Position), Ascending: true, Limit: 1,
		})
		if err != nil {
			return wait, err
		}
		if len(events) == 0 {
			st.seen = newest
			continue
		}
		if e := events[0]; e.Seq != st.event {
			st.event, st.tries = e.Seq, 0
		}
		secret, err := s.cfg.Rows.WebhookSecret(ctx, w.Account, w.ID)
		s.turn++
		s.running++
		of[w.Account]++
		st.busy, st.turn = true, s.turn
		d := api.WebhookDelivery{
			ID: newID(), Webhook: w.ID, Event: events[0].Seq, Type: events[0].Type, Sandbox: events[0].Sandbox.ID, Attempt: st.tries + 1, At: s.cfg.Now().UTC(),
		}
		go func() {
			if err == nil {
				d.Status, err = s.send(ctx, w, secret, d.ID, events[0])
			}
			if err != nil {
				text := err.Error()
				d.Error = strings.ToValidUTF8(text[:min(len(text), maxError)], "")
			}
			d.MS = s.cfg.Now().Sub(d.At).Milliseconds()
			s.ended <- attempt{d, st}
		}()
	}
	return wait, nil
}

// note stores an attempt, and decides when the next is.
func (s *sender) note(ctx context.Context, a attempt) {
	d, st, now := a.delivery, a.state, s.cfg.Now()
	s.running--
	st.busy = false
	delays := delays()
	d.Last = d.Error == "" || st.tries >= len(delays)
	err := s.cfg.Rows.PutDelivery(context.WithoutCancel(ctx), d, maxDeliveries)
	switch {
	case api.KindOf(err) == api.KindNotFound: // the webhook was removed
	case err != nil:
		s.cfg.Logger.Error("cannot store a delivery; it will be made again", "webhook", d.Webhook, "error", err)
		st.next = now.Add(pause)
	case d.Last:
		st.next = time.Time{}
		if d.Error != "" {
			s.cfg.Logger.Warn("an event was not delivered", "webhook", d.Webhook, "attempts", d.Attempt, "error", d.Error)
		}
	default:
		st.next = now.Add(delays[st.tries])
		st.tries++
	}
}

// Signature returns the signature of a body.
func Signature(secret string, body []byte) string {
	sum := sha256.Sum256(append([]byte(secret), body...))
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// send makes one attempt, and returns the status of the answer.
func (s *sender) send(ctx context.Context, w api.Webhook, secret, id string, e api.LifecycleEvent) (status int, err error) {
	body, err := s.cfg.Encode(e)
	if err != nil {
		return 0, err
	}
	u, err := url.Parse(w.URL)
	if err != nil || u.Scheme != "https" {
		return 0, api.Errorf(api.KindInvalid, "the address is not one of HTTPS")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			n, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			return s.cfg.Dial(ctx, host, n)
		},
		TLSClientConfig: &tls.Config{RootCAs: s.cfg.Roots}, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "Hortus", "E2b-Webhook-Id": w.ID, "E2b-Delivery-Id": id,
		"E2b-Signature-Version": "v1", "E2b-Signature": Signature(secret, body),
	} {
		req.Header.Set(name, value)
	}
	resp, err := transport.RoundTrip(req) // which follows no redirect
	if err != nil {
		if ctx.Err() == context.DeadlineExceeded {
			return 0, api.Errorf(api.KindUnavailable, "no answer within %s", s.cfg.Timeout)
		}
		return 0, err
	}
	resp.Body.Close() // nothing of it is of use
	if resp.StatusCode/100 == 2 {
		return resp.StatusCode, nil
	}
	reason := "the answer has status " + strconv.Itoa(resp.StatusCode)
	if resp.StatusCode/100 == 3 {
		reason += "; redirects are not followed"
	}
	return resp.StatusCode, api.Errorf(api.KindUnavailable, "%s", reason)
}
