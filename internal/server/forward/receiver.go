package forward

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"hortus.dev/api"
)

// Receiver is the handler of a node's listener for other nodes. Its connections are TLS with a certificate that was verified.
type Receiver struct {
	// From reports which node sent a request; an error refuses it.
	From func(r *http.Request) (api.NodeID, error)
	// Doors are the servers of this node.
	Doors map[Door]http.Handler
	// Now is the clock by which keys expire.
	Now func() time.Time
}

// arrival is a request that another node passed on.
type arrival struct {
	from   api.NodeID
	number string
	full   atomic.Bool
	// waits is true if the request may be refused while it waits for capacity.
	waits bool
}

type arrivalKey struct{}

func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// Arrived reports whether another node passed a request on: it was counted and authenticated there.
func Arrived(ctx context.Context) bool { return arrivalOf(ctx) != nil }

// ServeHTTP implements http.Handler.
func (d Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := d.From(r)
	if err != nil {
		http.Error(w, "this listener serves nodes of the fleet only", http.StatusForbidden)
		return
	}
	door, known := d.Doors[Door(r.Header.Get(headerDoor))]
	p, err := principalOf(r.Header)
	if !known || err != nil {
		http.Error(w, "the request has no valid door and principal: the nodes have different versions", http.StatusBadRequest)
		return
	}
	a := &arrival{from: from, number: r.Header.Get(headerNumber), waits: r.Header.Get(headerWait) != ""}
	ctx := context.WithValue(api.WithPrincipal(r.Context(), p), arrivalKey{}, a)
	if r.Header.Get(headerTell) != "" {
		ctx = api.WithWaitTold(ctx, tell(w))
	}
	if r.Header.Get(headerTry) != "" {
		ctx = api.WithoutWaiting(ctx, func() { a.full.Store(true) })
		w = &tryWriter{w, a}
	}
	if !p.ExpiresAt.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.ExpiresAt.Sub(d.Now()), api.Errorf(api.KindUnauthenticated, "API key %s has expired", p.Key))
		defer cancel()
	}
	r = r.WithContext(ctx)
	r.RemoteAddr = r.Header.Get(headerClient)
	if r.Header.Get(headerScheme) != "https" {
		r.TLS = nil
	}
	strip(r.Header)
	door.ServeHTTP(w, r)
}

// principalOf reads the principal of a request; a request of the data plane has none.
func principalOf(h http.Header) (api.Principal, error) {
	text := h.Get(headerPrincipal)
	if text == "" {
		return api.Principal{}, nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	var p principal
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	p.Principal.ExpiresAt = p.ExpiresAt
	if p.Role != api.RoleAdmin && p.Role != api.RoleUser {
		return api.Principal{}, api.Errorf(api.KindInvalid, "unknown role %.20q", p.Role)
	}
	return p.Principal, err
}

// tryWriter says in an error that it is for want of capacity.
type tryWriter struct {
	http.ResponseWriter
	a *arrival
}

// Unwrap is for http.ResponseController.
func (w *tryWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *tryWriter) WriteHeader(status int) {
	if status >= http.StatusBadRequest && w.a.full.Load() {
		w.Header().Set(headerFull, w.a.number)
	}
	w.ResponseWriter.WriteHeader(status)
}
