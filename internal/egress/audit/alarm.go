package audit

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/records"
)

const (
	// maxDenied is how many different connections and requests of a sandbox may be denied in deniedTime
	// before it is an alarm: a program that looks for a way out has many, one that tries again has few.
	maxDenied  = 100
	deniedTime = time.Minute
	// A program that asks a server the same at regular intervals may be waiting for orders: pollTimes
	// intervals, one after another, between minPoll and maxPoll, of which none differs from the mean of
	// those before by more than a fifth.
	pollTimes = 20
	minPoll   = time.Second
	maxPoll   = 15 * time.Minute
	pollSlack = 5
	// maxWatched is the maximum number of sandboxes, and of requests, that are watched at a time. Those
	// that had nothing for longer than maxPoll make way.
	maxWatched = 8192
	// A sandbox has maxAlarms alarms, and then one in alarmTime.
	maxAlarms = 10
	alarmTime = 10 * time.Minute
)

// watch notices what is suspicious in decisions that are each ordinary.
type watch struct {
	mu     sync.Mutex
	denied map[api.SandboxID]*burst
	polls  map[poll]*rhythm
	swept  time.Time
	limits *records.Limits[api.SandboxID]
}

func newWatch() *watch {
	return &watch{
		denied: map[api.SandboxID]*burst{}, polls: map[poll]*rhythm{},
		limits: records.NewLimits[api.SandboxID](1/alarmTime.Seconds(), maxAlarms),
	}
}

type burst struct {
	since time.Time
	seen  map[poll]struct{}
	n     int // those that were recorded as one
	told  bool
}

// poll is what requests that are repeated have in common.
type poll struct {
	sandbox          api.SandboxID
	op, method, path string
	host             string
	port             int
}

func pollOf(d api.EgressDecision) poll {
	return poll{d.Sandbox, d.Op, d.Method, d.Path, d.Host, d.Port}
}

type rhythm struct {
	last time.Time
	mean time.Duration
	n    int
	told bool
}

// see returns the alarm that a decision is the reason for, if there is one.
func (w *watch) see(d api.EgressDecision, now time.Time) (alarm api.EgressDecision, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	why := ""
	switch {
	case d.Op == api.EgressOpAnswer || d.Op == api.EgressOpGap:
	case d.Result == api.EgressDenied:
		why = w.burst(d, now)
	case d.Result == api.EgressAllowed && !d.Cached && (d.Op == "request" || d.Op == "connect" && d.Class != api.EgressWeb):
		why = w.rhythm(d, now)
	}
	if why == "" || !w.limits.Allow(d.Sandbox, now) {
		return alarm, false
	}
	alarm = d
	alarm.At, alarm.Op, alarm.Result, alarm.Reason, alarm.Hint = now, api.EgressOpAlarm, api.EgressAlarm, why, ""
	alarm.Status, alarm.Sent, alarm.Received, alarm.DurationMS, alarm.Count = 0, 0, 0, 0, 0
	return alarm, true
}

// burst counts a denied decision.
func (w *watch) burst(d api.EgressDecision, now time.Time) string {
	b := w.denied[d.Sandbox]
	if b == nil {
		if w.sweep(now); len(w.denied) >= maxWatched {
			return ""
		}
		b = &burst{}
		w.denied[d.Sandbox] = b
	}
	if e := now.Sub(b.since); e < 0 || e >= deniedTime {
		*b = burst{since: now, seen: map[poll]struct{}{}}
	}
	if b.told {
		return ""
	}
	if b.seen[pollOf(d)] = struct{}{}; d.Host == "*" { // too many in a second
		b.n += weight(d)
	}
	if len(b.seen)+b.n <= maxDenied {
		return ""
	}
	b.told, b.seen = true, nil
	return fmt.Sprintf("more than %d different connections and requests were denied in %v: a program may be looking for a way out", maxDenied, deniedTime)
}

// rhythm notes the time of a request.
func (w *watch) rhythm(d api.EgressDecision, now time.Time) string {
	k := pollOf(d)
	r := w.polls[k]
	if r == nil {
		if w.sweep(now); len(w.polls) < maxWatched {
			w.polls[k] = &rhythm{last: now}
		}
		return ""
	}
	interval := now.Sub(r.last)
	r.last = now
	if slack := r.mean / pollSlack; interval < minPoll || interval > maxPoll || r.n > 0 && (interval < r.mean-slack || interval > r.mean+slack) {
		r.n, r.mean, r.told = 0, 0, false
	}
	if interval < minPoll || interval > maxPoll {
		return ""
	}
	r.mean = (r.mean*time.Duration(r.n) + interval) / time.Duration(r.n+1)
	if r.n++; r.n < pollTimes || r.told {
		return ""
	}
	r.told = true
	return fmt.Sprintf("the same request %d times, every %v: a program may be waiting for orders", pollTimes+1, r.mean.Round(100*time.Millisecond))
}

// sweep removes what is old, if there is much and it was not just done.
func (w *watch) sweep(now time.Time) {
	if len(w.denied) < maxWatched && len(w.polls) < maxWatched || now.Sub(w.swept) < deniedTime && !now.Before(w.swept) {
		return
	}
	w.swept = now
	maps.DeleteFunc(w.denied, func(_ api.SandboxID, b *burst) bool { return now.Sub(b.since) > deniedTime })
	maps.DeleteFunc(w.polls, func(_ poll, r *rhythm) bool { return now.Sub(r.last) > maxPoll })
}
