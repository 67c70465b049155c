package http

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/forward"
	"hortus.dev/internal/server/guestproxy"
)

// Killed is the answer to a kill.
type Killed struct {
	Sandbox api.Sandbox `json:"sandbox"`
	Proof   api.Proof   `json:"proof"`
}

// TTL sets a time to live.
type TTL struct {
	TTLMS int64 `json:"ttlMs"`
}

func (d sandboxes) sandboxRoutes() []Route {
	const one = "/v1/sandboxes/{id}"
	return []Route{{
		Method: "POST", Pattern: "/v1/sandboxes", Name: "createSandbox", Role: api.RoleUser, Creates: true, Places: forward.Sandbox, Waits: true,
		Doc: "Create a sandbox. It accepts commands when the answer is sent. " + waitDoc,
		In:  api.CreateSandbox{}, Out: api.Sandbox{}, Status: http.StatusCreated,
		Handler: create(http.StatusCreated, d.Sandboxes, Sandboxes.Create),
	}, {
		Method: "GET", Pattern: "/v1/sandboxes", Name: "sandboxes", Role: api.RoleUser,
		Doc: "List the sandboxes that have not ended, or all, newest first.",
		Out: []api.Sandbox{}, Paged: true, Params: []Param{allParam, stateParam, labelParam, forksParam, lineageParam},
		Handler: page(d.sandboxPage),
	}, {
		Method: "GET", Pattern: one, Name: "sandbox", Role: api.RoleUser, Stored: true,
		Doc:     "Get a sandbox, by its id or a unique prefix of it.",
		Out:     api.Sandbox{},
		Handler: on(d.Sandboxes, sandboxID(d.Sandboxes), Sandboxes.Get),
	}, {
		Method: "GET", Pattern: one + "/stats", Name: "sandboxStats", Role: api.RoleUser,
		Doc:     "Get the current resource usage of a sandbox.",
		Out:     api.Stats{},
		Handler: on(d.Sandboxes, sandboxID(d.Sandboxes), Sandboxes.Stats),
	}, {
		Method: "GET", Pattern: one + "/samples", Name: "sandboxSamples", Role: api.RoleUser,
		Doc: "Get the resource usage of a sandbox over time: one sample every five seconds, of the last hour, the oldest first. " +
			"A sandbox that has ended or is paused to disk has none, and samples do not survive a restart of the daemon.",
		Out:     []api.Stats{},
		Handler: on(d.Sandboxes, sandboxID(d.Sandboxes), samplesOf),
	}, {
		Method: "POST", Pattern: one + "/pause", Name: "pauseSandbox", Role: api.RoleUser,
		Doc: "Pause the sandbox: freeze it in memory, or save it to disk and free its memory.",
		In:  api.PauseSandbox{}, Optional: true, Out: api.Sandbox{},
		Handler: accept(http.StatusOK, decodeAny, func(r *http.Request, in api.PauseSandbox) (v api.Sandbox, err error) {
			id, err := sandboxID(d.Sandboxes)(r)
			switch {
			case err != nil:
				return v, err
			case in.ToDisk:
				return d.Snapshots.PauseToDisk(r.Context(), id)
			}
			return d.Sandboxes.Pause(r.Context(), id)
		}),
	}, {
		Method: "POST", Pattern: one + "/resume", Name: "resumeSandbox", Role: api.RoleUser, Waits: true,
		Doc:     "Resume a paused sandbox, from memory or from disk. " + waitDoc,
		Out:     api.Sandbox{},
		Handler: on(d.Sandboxes, sandboxID(d.Sandboxes), Sandboxes.Resume),
	}, {
		Method: "DELETE", Pattern: one, Name: "killSandbox", Role: api.RoleUser,
		Doc: "Kill the sandbox and everything in it, and return the proof that nothing is left.",
		Out: Killed{},
		Handler: on(d.Sandboxes, sandboxID(d.Sandboxes), func(all Sandboxes, ctx context.Context, id api.SandboxID) (Killed, error) {
			s, proof, err := all.Kill(ctx, id)
			return Killed{s, proof}, err
		}),
	}, {
		Method: "POST", Pattern: one + "/ttl", Name: "setTTL", Role: api.RoleUser,
		Doc: "Set the time to live, in milliseconds from now.",
		In:  TTL{}, Out: api.Sandbox{},
		Handler: accept(http.StatusOK, decode, func(r *http.Request, in TTL) (v api.Sandbox, err error) {
			if in.TTLMS > api.MaxTTL.Milliseconds() {
				return v, api.Errorf(api.KindInvalid, "time to live of %d ms is above the maximum of %d ms, which is %v hours", in.TTLMS, api.MaxTTL.Milliseconds(), api.MaxTTL.Hours())
			}
			id, err := sandboxID(d.Sandboxes)(r)
			if err != nil {
				return v, err
			}
			return d.Sandboxes.SetTTL(r.Context(), id, time.Duration(in.TTLMS)*time.Millisecond)
		}),
	}, {
		Method: "GET", Pattern: one + "/hold", Name: "holdSandbox", Role: api.RoleUser,
		Doc:     "Hold the sandbox: it is killed when this connection ends, and the connection ends with it.",
		OutType: "text/plain",
		Handler: d.hold,
	}, {
		Method: "GET", Pattern: one + "/events", Name: "sandboxEvents", Role: api.RoleUser, Stored: true,
		Doc: "Stream the sandbox's events: the stored ones, then new ones.",
		Out: api.Event{}, OutType: typeEvents, Params: eventParams,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			id, err := sandboxID(d.Sandboxes)(r)
			if err == nil {
				_, err = d.Sandboxes.Get(r.Context(), id)
			}
			if err != nil {
				return err
			}
			return d.events.serve(w, r, sandboxEvents(id))
		},
	}, {
		Method: "GET", Pattern: one + "/execs", Name: "execs", Role: api.RoleUser, Stored: true,
		Doc: "List the sandbox's commands, newest first.",
		Out: []api.Exec{}, Paged: true,
		Handler: page(func(ctx context.Context, r *http.Request, p api.PageRequest) ([]api.Exec, string, error) {
			id, err := sandboxID(d.Sandboxes)(r)
			if err != nil {
				return nil, "", err
			}
			return d.Sandboxes.ExecPage(ctx, id, p)
		}),
	}, {
		Method: "POST", Pattern: one + "/envd/process.Process/Start", Name: "envdStart", Role: api.RoleUser,
		Doc:    "Start a command, in the guest's protocol (Connect).",
		InType: "application/connect+json", OutType: "application/connect+json",
		Handler: d.execs.start,
	}, {
		Method: "POST", Pattern: one + "/envd/process.Process/Connect", Name: "envdConnect", Role: api.RoleUser,
		Doc:    "Attach to a command, in the guest's protocol (Connect).",
		InType: "application/connect+json", OutType: "application/connect+json",
		Handler: d.execs.connect,
	}, {
		Pattern: one + "/envd/", Name: "envd", Role: api.RoleUser,
		Doc: "All other calls of the guest's protocol (Connect), for clients that speak it: directories, input, signals, metrics. " +
			"For files use the routes below /files.",
		InType: typeBytes, Optional: true, OutType: typeBytes,
		Handler: d.guests.serve,
	}, {
		Method: "GET", Pattern: one + "/ports/{port}", Name: "sandboxPort", Role: api.RoleUser,
		Doc:     "Open a stream to a port inside the sandbox. Send \"Connection: Upgrade\" and \"Upgrade: hortus-port\"; after the answer 101 the connection is the stream.",
		OutType: typeBytes, Status: http.StatusSwitchingProtocols,
		Handler: d.port,
	}, {
		Method: "POST", Pattern: one + "/ports/{port}/url", Name: "sandboxPortURL", Role: api.RoleUser,
		Doc:     "Make the URL at which a browser reaches a port inside the sandbox. If the sandbox's traffic is private, the URL works once, for ten minutes.",
		Out:     api.PortURL{},
		Handler: d.portURL,
	}}
}

// samplesOf is a list also for a sandbox that has none.
func samplesOf(all Sandboxes, ctx context.Context, id api.SandboxID) ([]api.Stats, error) {
	got, err := all.Samples(ctx, id)
	if err == nil && got == nil {
		got = []api.Stats{}
	}
	return got, err
}

// sandboxID returns a reader of the identifier of a sandbox in the path.
func sandboxID(all Sandboxes) func(*http.Request) (api.SandboxID, error) {
	return func(r *http.Request) (api.SandboxID, error) { return pathID(r, all, Sandboxes.Find) }
}

// hold kills a sandbox when this connection ends, and ends the connection with it.
func (d sandboxes) hold(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxID(d.Sandboxes)(r)
	if err == nil {
		err = d.Sandboxes.Held(r.Context(), id)
	}
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/plain")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		// Writing detects a broken connection.
		if _, err := w.Write([]byte("\n")); err != nil || rc.Flush() != nil {
			break
		}
		select {
		case <-r.Context().Done():
		case <-tick.C:
			if s, err := d.Sandboxes.Get(r.Context(), id); err == nil && s.State.Final() {
				return nil
			}
			continue
		}
		break
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 30*time.Second)
	defer cancel()
	if _, _, err := d.Sandboxes.Kill(ctx, id); err != nil {
		d.Logger.Error("sandbox with a wait request not killed; it ends at its deadline", "sandbox", id, "error", err)
	}
	return nil
}

// guests lead clients to the servers of guests.
type guests struct {
	sandboxes Sandboxes
	proxy     *guestproxy.Proxy
}

// serve passes a request below /envd/ on to the sandbox's guest, except for one of the host's
// own paths.
func (d guests) serve(w http.ResponseWriter, r *http.Request) error {
	id, err := sandboxID(d.sandboxes)(r)
	if err == nil {
		_, err = d.sandboxes.Get(r.Context(), id)
	}
	if err != nil {
		return err
	}
	prefix := "/v1/sandboxes/" + r.PathValue("id") + "/envd"
	in := r.WithContext(r.Context())
	in.URL = &url.URL{
		Path: strings.TrimPrefix(r.URL.Path, prefix), RawPath: strings.TrimPrefix(r.URL.EscapedPath(), prefix), RawQuery: r.URL.RawQuery,
	}
	if strings.HasPrefix(in.URL.Path, envd.PathsOfHost) {
		return api.Errorf(api.KindNotFound, "path not found")
	}
	d.pass(w, in, id)
	return nil
}

// port returns a stream to a port inside a sandbox: after the answer 101 the
// connection is that stream. It lives until either side ends it, or the sandbox
// ends.
func (d sandboxes) port(w http.ResponseWriter, r *http.Request) error {
	port, err := pathPort(r)
	if err != nil {
		return err
	}
	if !strings.EqualFold(r.Header.Get("Upgrade"), envd.PortProtocol) || r.ContentLength != 0 {
		return api.Errorf(api.KindInvalid, "a port is a stream: request it with \"Connection: Upgrade\" and \"Upgrade: %s\", and without a body", envd.PortProtocol)
	}
	id, err := sandboxID(d.Sandboxes)(r)
	var stream net.Conn
	if err == nil {
		stream, err = d.Sandboxes.Dial(r.Context(), id, port)
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return api.Errorf(api.KindInternal, "upgrade the connection: %w", err)
	}
	defer conn.Close()
	// The key of the request may expire.
	defer context.AfterFunc(r.Context(), func() { conn.Close() })()
	head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + envd.PortProtocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		return nil
	}
	// What the client sent without waiting for the answer comes first.
	if n := rw.Reader.Buffered(); n > 0 {
		early, _ := rw.Reader.Peek(n)
		if _, err := stream.Write(early); err != nil {
			return nil
		}
	}
	guestproxy.Pipe(conn, stream, guestproxy.DefaultGrace)
	return nil
}

// pathPort reads the port in the path of a request.
func pathPort(r *http.Request) (int, error) {
	port, ok := envd.ParsePort(r.PathValue("port"))
	if !ok {
		return 0, api.Errorf(api.KindInvalid, "%.20q is not a port: use 1 to %d", r.PathValue("port"), envd.MaxPort)
	}
	return port, nil
}

// portURL makes the URL of a port.
func (d sandboxes) portURL(w http.ResponseWriter, r *http.Request) error {
	port, err := pathPort(r)
	if err != nil {
		return err
	}
	id, err := sandboxID(d.Sandboxes)(r)
	var s api.Sandbox
	if err == nil {
		s, err = d.Sandboxes.Get(r.Context(), id)
	}
	if err == nil && s.State.Final() {
		ended := api.Errorf(api.KindUnavailable, "sandbox %s is ended (%s)", id, s.Reason)
		ended.Gone, err = true, ended
	}
	var out api.PortURL
	if err == nil {
		out, err = d.PortURL(s, port)
	}
	w.Header().Set("Cache-Control", "no-store")
	return reply(w, http.StatusOK, out, err)
}
