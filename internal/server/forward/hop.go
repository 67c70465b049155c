package forward

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"hortus.dev/api"
)

// prefix begins the headers between nodes. In a request: the door, the principal, where the client is and whether it used
// HTTPS, whether the node must refuse instead of letting the request wait, whether it may while it waits, whether it tells for what it waits, and a number.
// In an interim answer, for what it waits. In an answer, with that number, which
// programs of sandboxes do not know: the thing is not there any more, or there is no capacity.
const (
	prefix          = "Hortus-Node-"
	headerDoor      = prefix + "Door"
	headerPrincipal = prefix + "Principal"
	headerClient    = prefix + "Client"
	headerScheme    = prefix + "Scheme"
	headerTry       = prefix + "Try"
	headerWait      = prefix + "Wait"
	headerTell      = prefix + "Tell"
	headerWaits     = prefix + "Waits"
	headerNumber    = prefix + "Number"
	headerMoved     = prefix + "Moved"
	headerFull      = prefix + "Full"
)

// hop is one request on its way to another node.
type hop struct {
	door Door
	to   api.NodeID
	// try has the node refuse what it has no capacity for now, wait what waits there when another one seems to have it.
	try, wait bool
	number    string
	// answered are the headers of the answer that the client gets that were set before.
	answered http.Header
	// err is why the node did not answer.
	err error
}

type hopKey struct{}

func hopOf(ctx context.Context) *hop {
	h, _ := ctx.Value(hopKey{}).(*hop)
	return h
}

// principal is a principal between nodes.
type principal struct {
	api.Principal
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

func (h *hop) rewrite(in, out *http.Request) {
	out.URL.Scheme, out.URL.Host, out.URL.RawQuery = "https", string(h.to), in.URL.RawQuery
	out.Host = in.Host
	strip(out.Header)
	out.Header.Del("X-Api-Key") // the other node gets the principal
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := in.Header[name]; values != nil { // they are of a proxy before this node
			out.Header[name] = values
		}
	}
	h.number = rand.Text()
	out.Header.Set(headerNumber, h.number)
	out.Header.Set(headerDoor, string(h.door))
	out.Header.Set(headerClient, in.RemoteAddr)
	if in.TLS != nil {
		out.Header.Set(headerScheme, "https")
	}
	if h.try {
		out.Header.Set(headerTry, "1")
	}
	if h.wait {
		out.Header.Set(headerWait, "1")
	}
	if api.WaitToldOf(in.Context()) != nil {
		out.Header.Set(headerTell, "1")
	}
	if p := api.PrincipalOf(in.Context()); p.Role != "" {
		text, _ := json.Marshal(principal{p, p.ExpiresAt}) // of strings, numbers and a time
		out.Header.Set(headerPrincipal, base64.StdEncoding.EncodeToString(text))
	}
}

// strip removes the headers between nodes.
func strip(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, prefix) {
			delete(h, name)
		}
	}
}

// check takes what nodes say to each other from an answer.
func (h *hop) check(resp *http.Response) error {
	moved, full := resp.Header.Get(headerMoved) == h.number, resp.Header.Get(headerFull) == h.number
	strip(resp.Header)
	for name := range h.answered { // both nodes have the same front
		if name != "Vary" {
			resp.Header.Del(name)
		}
	}
	switch {
	case moved:
		return errMoved
	case full:
		return errFull
	}
	return nil
}
