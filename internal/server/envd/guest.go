package envd

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

// What is refused, word for word as E2B does: clients tell the cases apart by it.
const (
	invalidSignature = "invalid signature"
	expiredSignature = "signature is already expired"
	noToken          = "unauthorized access, please provide a valid access token or method signing if supported"
)

const headerToken = "X-Access-Token"

// guestPaths are what clients may ask of a guest. Whatever else its server knows is
// between it and its host.
var guestPaths = map[string]bool{
	envd.ProcStart: true, envd.ProcConnect: true, envd.ProcList: true, envd.ProcUpdate: true, envd.ProcSendInput: true,
	envd.ProcStreamInput: true, envd.ProcSendSignal: true, envd.ProcCloseStdin: true,

	envd.FSStat: true, envd.FSListDir: true, envd.FSMakeDir: true, envd.FSMove: true, envd.FSRemove: true,
	envd.FSWatchDir: true, envd.FSCreateWatcher: true, envd.FSGetWatcherEvents: true, envd.FSRemoveWatcher: true,

	envd.PathHealth: true, envd.PathMetrics: true, envd.PathEnvs: true, envd.PathFiles: true, envd.PathCompose: true,
}

// serveGuest serves a request for a sandbox's own server. Its token is looked at
// before the sandbox is: without one, an identifier that is almost right and one
// that is right are answered alike.
func (d *Server) serveGuest(w http.ResponseWriter, r *http.Request, id api.SandboxID) {
	if !guestPaths[r.URL.Path] {
		refuse(w, http.StatusNotFound, "path not found")
		return
	}
	got := r.Header.Values(headerToken)
	authorised := len(got) == 1 && d.cfg.Tokens.CheckEnvd(string(id), got[0])
	q := r.URL.Query()
	switch {
	case authorised:
	case r.URL.Path == envd.PathHealth && r.Method == http.MethodGet:
	case r.URL.Path == envd.PathFiles && len(got) == 0 && q.Has(paramSignature):
		s, ok := signedOf(r, q)
		if !ok || s.match(d.cfg.Tokens.Envd(string(id))) == 0 {
			refuse(w, http.StatusUnauthorized, invalidSignature)
			return
		}
		d.files(w, r, id, s)
		return
	default:
		refuse(w, http.StatusUnauthorized, noToken)
		return
	}
	d.proxy(w, r, id)
}

// files serves a request whose signature matches.
func (d *Server) files(w http.ResponseWriter, r *http.Request, id api.SandboxID, s signatureClaim) {
	if d.expired(s) {
		refuse(w, http.StatusUnauthorized, expiredSignature)
		return
	}
	// A browser must not tell the address to what the file's page leads to.
	w.Header().Set("Referrer-Policy", "no-referrer")
	d.proxy(w, r, id)
}

// fileParams are the parameters of /files. Nothing else that a guest serves has any.
var fileParams = map[string]bool{paramPath: true, paramUser: true, paramSignature: true, paramExpiration: true}

// checkQuery finds what in an address would be ignored: what nobody knows, and what is
// there twice.
func checkQuery(r *http.Request) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("the query string is malformed: %.100s", err)
	}
	for name, values := range q {
		switch {
		case r.URL.Path != envd.PathFiles || !fileParams[name]:
			return fmt.Errorf("unknown parameter %.60q", name)
		case len(values) > 1:
			return fmt.Errorf("parameter %q is set %d times", name, len(values))
		}
	}
	return nil
}

// count counts an authorized request among those of the sandbox's account. It answers, and is false, if
// there are too many.
func (d *Server) count(w http.ResponseWriter, r *http.Request, id api.SandboxID) bool {
	err := d.cfg.Sandboxes.Count(r.Context(), id)
	if api.KindOf(err) != api.KindExhausted {
		return true // another error comes again where the sandbox is used
	}
	problem{Sandbox: id, Message: err.Error(), Code: http.StatusTooManyRequests}.write(w)
	return false
}

// proxy serves an authorized request.
func (d *Server) proxy(w http.ResponseWriter, r *http.Request, id api.SandboxID) {
	if err := checkQuery(r); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if _, err := guestproxy.User(r); err != nil {
		refuse(w, http.StatusUnauthorized, err.Error())
		return
	}
	if !d.count(w, r, id) || !d.ensureRunning(w, r, id, r.URL.Path != envd.PathHealth) {
		return
	}
	switch {
	case r.URL.Path == envd.ProcStart && r.Method == http.MethodPost:
		d.start(w, r, id)
	case r.URL.Path == envd.ProcConnect && r.Method == http.MethodPost:
		d.connect(w, r, id)
	default:
		d.toGuest(w, r, id)
	}
}

// ensureRunning resumes a paused sandbox. It answers the request and returns false if the
// sandbox does not run. The answer says why only if the request needed a secret of the sandbox.
func (d *Server) ensureRunning(w http.ResponseWriter, r *http.Request, id api.SandboxID, secret bool) bool {
	_, err := d.running(r.Context(), id)
	switch {
	case err == nil:
		return true
	case errors.Is(err, errCrowded):
		problem{Sandbox: id, Message: "Too many connections to the sandbox are open", Code: http.StatusTooManyRequests}.write(w)
	case secret:
		d.notServed(w, r.Context(), id)
	default:
		notFound(w, id)
	}
	return false
}

// toGuest passes a request on. The address is made anew, of the parts that are the
// guest's: a path that it serves, and which file as which user.
func (d *Server) toGuest(w http.ResponseWriter, r *http.Request, id api.SandboxID) {
	if envd.Writes(r.Method, r.URL.Path) {
		if err := d.cfg.Sandboxes.Upload(r.Context(), id, r.ContentLength); err != nil {
			d.notStored(w, r, id, err)
			return
		}
	}
	in := r.WithContext(r.Context())
	in.URL = &url.URL{Path: r.URL.Path}
	if r.URL.Path == envd.PathFiles {
		q, out := r.URL.Query(), url.Values{}
		for _, name := range []string{paramPath, paramUser} {
			if q.Has(name) {
				out.Set(name, q.Get(name))
			}
		}
		in.URL.RawQuery = out.Encode()
	}
	d.guest.Serve(w, in, id)
}
