package execserver

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"

	"hortus.dev/api"
)

// The codes of errors.
const (
	codeParse    = -32700
	codeRequest  = -32600
	codeMethod   = -32601
	codeParams   = -32602
	codeInternal = -32603
	codeNotFound = -32004
)

// message is any message of the peer: a request has an id and a method, a notification only
// a method. Messages have no version.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// response answers a request.
type response struct {
	ID     json.RawMessage `json:"id"`
	Result any             `json:"result,omitempty"`
	Error  *failure        `json:"error,omitempty"`
}

// notification is a message that is not answered.
type notification struct {
	Method string `json:"method"`
	Params any    `json:"params"`
}

// failure is the error of a response.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// failureOf turns an error into that of a response.
func failureOf(err error) *failure {
	text := err.Error()
	if hint := api.HintOf(err); hint != "" {
		text += "; " + hint
	}
	f := &failure{Code: codeInternal, Message: text}
	switch api.KindOf(err) {
	case api.KindNotFound:
		f.Code = codeNotFound
	case api.KindInvalid:
		f.Code = codeParams
	case api.KindDenied, api.KindExists, api.KindConflict, api.KindExhausted, api.KindUnsupported:
		f.Code = codeRequest
	}
	return f
}

// pathOf returns the path of a file URI. It is a path of the sandbox, whatever it is.
func pathOf(uri string) (string, error) {
	if len(uri) > 3*maxPath {
		return "", api.Errorf(api.KindInvalid, "a path is longer than %d bytes", maxPath)
	}
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", api.Errorf(api.KindInvalid, "%.200q is not the URI of a file: write file:///PATH", uri)
	}
	if !strings.HasPrefix(u.Path, "/") || strings.ContainsRune(u.Path, 0) || len(u.Path) > maxPath {
		return "", api.Errorf(api.KindInvalid, "%.200q is not the URI of an absolute path of at most %d bytes", uri, maxPath)
	}
	return path.Clean(u.Path), nil
}

// uriOf returns the URI of an absolute path.
func uriOf(p string) string { return (&url.URL{Scheme: "file", Path: p}).String() }

// nameOf checks an identifier that the peer chose.
func nameOf(what, name string) error {
	if name == "" || len(name) > maxName {
		return api.Errorf(api.KindInvalid, "%s must have 1 to %d bytes", what, maxName)
	}
	return nil
}

// confinement is a sandbox of Codex's own around one request. The sandbox of Hortus is all
// that there is, so it is refused.
type confinement struct {
	Sandbox json.RawMessage `json:"sandbox"`
}

func (c confinement) check() error { return refuseValue("sandbox", c.Sandbox) }

// refuseValue refuses a restriction that would not be enforced.
func refuseValue(name string, v json.RawMessage) error {
	if s := string(v); s == "" || s == "null" || s == "false" {
		return nil
	}
	return api.Errorf(api.KindUnsupported, "this server cannot apply %s: the Hortus sandbox is the only one around commands and files", name).
		WithHint("run codex with --sandbox danger-full-access, and restrict the sandbox of Hortus instead: its egress, its limits, its read-only files")
}
