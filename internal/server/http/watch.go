package http

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
)

const (
	// maxWatched is the maximum number of streams that one request follows.
	maxWatched = 16
	// changesEvery is the minimum time between two messages about changed streams.
	changesEvery = 250 * time.Millisecond
)

// watches has the handler of what a page watches.
type watches struct{ events eventServer }

func (d watches) watchRoutes() []Route {
	return []Route{{
		Method: "GET", Pattern: "/v1/watch", Name: "watch", Role: api.RoleUser,
		Doc: "Follow several event streams in one answer, and learn which others of the account change. " +
			"The first message has any set: read then what you show. A client that reconnects names the number of the last event of each stream that it has.",
		Params: []Param{{Name: "stream", Doc: "Stream to follow, as KIND/ID/AFTER: task, sandbox, session, plan or hook (of a repository), the whole id, and the number of the last event that the client has (0 for none). Can be repeated, 16 times at most.", Type: ""}},
		Out:    api.Watched{}, OutType: typeEvents,
		Handler: d.watch,
	}}
}

// followed is a stream that a client follows.
type followed struct {
	stream api.Stream
	after  int64
}

// followedOf reads the streams of a request.
func followedOf(r *http.Request) (all []followed, err error) {
	for _, v := range r.URL.Query()["stream"] {
		parts := strings.Split(v, "/")
		if len(parts) != 3 || parts[0] == "" || parts[1] == "" {
			return nil, api.Errorf(api.KindInvalid, "stream %.80q is not KIND/ID/AFTER", v).WithHint("for example task/%s/0", api.NewTaskID())
		}
		after, err := number(parts[2])
		if err != nil {
			return nil, err
		}
		if api.StreamKind(parts[0]) == api.StreamCommands {
			return nil, api.Errorf(api.KindInvalid, "stream %.80q has no events to follow", v).
				WithHint("list the commands again when a message names the stream in changed: GET /v1/sandboxes/%s/execs", parts[1])
		}
		all = append(all, followed{api.Stream{Kind: api.StreamKind(parts[0]), ID: parts[1]}, after})
	}
	if len(all) > maxWatched {
		return nil, api.Errorf(api.KindInvalid, "%d streams are too many: use %d at most", len(all), maxWatched)
	}
	return all, nil
}

// watch sends the events of the streams of a request, and what else changes, until the client is gone.
func (d watches) watch(w http.ResponseWriter, r *http.Request) error {
	all, err := followedOf(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	for _, f := range all { // an error of one is the answer, not a stream that ends
		if _, err := d.events.log.Read(ctx, f.stream, f.after, 1); err != nil {
			return err
		}
	}
	changes, err := d.events.log.Changes(ctx)
	if err != nil {
		return err
	}
	out, ok := d.events.open(w)
	if !ok {
		return nil
	}
	messages := make(chan api.Watched)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	send := func(m api.Watched) bool {
		select {
		case messages <- m:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for _, f := range all {
		group.Go(func() {
			for e, err := range d.events.log.Follow(ctx, f.stream, f.after) {
				if err != nil {
					cancel() // the client comes back with the numbers it has
					return
				}
				if !send(api.Watched{Event: &e}) {
					return
				}
			}
			cancel() // the log is closed
		})
	}
	group.Go(func() {
		defer cancel()
		if !send(api.Watched{Any: true}) {
			return
		}
		pause := time.NewTimer(0)
		defer pause.Stop()
		for batch := range changes {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return
			}
			if !send(api.Watched{Changed: batch, Any: batch == nil}) {
				return
			}
			pause.Reset(changesEvery)
		}
	})
	tick := time.NewTicker(keepalive)
	defer tick.Stop()
	for n := int64(1); ; {
		select {
		case m := <-messages:
			if out.send(strconv.FormatInt(n, 10), "watched", m) != nil {
				return nil
			}
			n++
		case <-tick.C:
			if out.comment("keepalive") != nil {
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
