package http

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	"hortus.dev/internal/server/guestproxy"
)

const (
	// maxCodeEvent bounds one event of an interpreter, in bytes: an image or a table.
	maxCodeEvent = 64 << 20
	// codeDir is where code runs if nothing else is said: where commands run, and where relative paths of files are.
	codeDir = "/workspace"
	// maxCodeAnswer bounds its other answers.
	maxCodeAnswer = 1 << 20
)

func (d sandboxes) codeRoutes() []Route {
	const one = "/v1/sandboxes/{id}/code"
	return []Route{{
		Method: "POST", Pattern: one, Name: "runCode", Role: api.RoleUser,
		Doc: "Run a piece of code in a context of the sandbox's code interpreter, which starts with the first piece. " +
			"The answer is its events as lines of JSON. When the client leaves, the code is interrupted.",
		In: api.RunCode{}, Out: api.CodeEvent{}, OutType: typeLines,
		Handler: d.runCode,
	}, {
		Method: "GET", Pattern: one + "/contexts", Name: "codeContexts", Role: api.RoleUser,
		Doc: "List the contexts of the code interpreter. Each language that the sandbox has begins with one, whose id is its name.",
		Out: []api.CodeContext{},
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			var rows []guestContext
			err := d.interpreter(r, "GET", "contexts", nil, &rows)
			out := []api.CodeContext{}
			for _, c := range rows {
				out = append(out, api.CodeContext(c))
			}
			return reply(w, http.StatusOK, out, err)
		},
	}, {
		Method: "POST", Pattern: one + "/contexts", Name: "createCodeContext", Role: api.RoleUser,
		Doc: "Create a context.",
		In:  api.CreateCodeContext{}, Out: api.CodeContext{}, Status: http.StatusCreated,
		Handler: accept(http.StatusCreated, decode, func(r *http.Request, in api.CreateCodeContext) (api.CodeContext, error) {
			var out guestContext
			err := d.interpreter(r, "POST", "contexts", map[string]string{"language": in.Language, "cwd": cmp.Or(in.Dir, codeDir)}, &out)
			return api.CodeContext(out), err
		}),
	}, {
		Method: "DELETE", Pattern: one + "/contexts/{context}", Name: "deleteCodeContext", Role: api.RoleUser,
		Doc:    "Delete a context and end its process.",
		Status: http.StatusNoContent,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			return done(w, d.interpreter(r, "DELETE", "contexts/"+url.PathEscape(r.PathValue("context")), nil, nil))
		},
	}, {
		Method: "POST", Pattern: one + "/contexts/{context}/{order}", Name: "orderCodeContext", Role: api.RoleUser,
		Doc:    "Restart a context, without what it had, or interrupt its code: order is restart or interrupt.",
		Status: http.StatusNoContent,
		Handler: func(w http.ResponseWriter, r *http.Request) error {
			order := r.PathValue("order")
			if order != "restart" && order != "interrupt" {
				return api.Errorf(api.KindInvalid, "%.40q is no order for a context: use restart or interrupt", order)
			}
			return done(w, d.interpreter(r, "POST", "contexts/"+url.PathEscape(r.PathValue("context"))+"/"+order, nil, nil))
		},
	}}
}

// guestContext is a context as the interpreter has it.
type guestContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`
}

// interpreter asks the code interpreter of a sandbox, and decodes its answer. It is a program of the sandbox's: what it answers is bounded
// and read as data.
func (d sandboxes) interpreter(r *http.Request, method, path string, in, out any) error {
	resp, err := d.askInterpreter(r, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxCodeAnswer)).Decode(out); err != nil {
		return api.Errorf(api.KindUnavailable, "the code interpreter gave an answer that is not valid: %w", err)
	}
	return nil
}

func (d sandboxes) askInterpreter(r *http.Request, method, path string, in any) (*http.Response, error) {
	id, err := sandboxID(d.Sandboxes)(r)
	if err != nil {
		return nil, err
	}
	body := io.Reader(http.NoBody)
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, api.Errorf(api.KindInvalid, "request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(r.Context(), method, "http://"+string(id)+"/"+path, body)
	if err != nil {
		return nil, api.Errorf(api.KindInvalid, "request: %w", err)
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := d.Sandboxes.Dial(ctx, id, envd.CodePort)
			if err != nil {
				return nil, err
			}
			return guestproxy.Opened(ctx, c), nil
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	resp, err := guestproxy.FinalOnly{Transport: transport}.RoundTrip(req)
	if err != nil {
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		var known *api.Error
		if errors.As(err, &known) {
			return nil, known
		}
		return nil, api.Errorf(api.KindUnavailable, "the code interpreter of sandbox %s does not answer: %w", id, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // a part of it is as good
	kind, ok := map[int]api.Kind{http.StatusNotFound: api.KindNotFound, http.StatusBadRequest: api.KindInvalid, http.StatusTooManyRequests: api.KindExhausted,
		http.StatusRequestEntityTooLarge: api.KindInvalid}[resp.StatusCode]
	if !ok {
		kind = api.KindUnavailable
	}
	return nil, api.Errorf(kind, "%s", bytes.ToValidUTF8(text, nil))
}

// runCode runs code and passes its events on.
func (d sandboxes) runCode(w http.ResponseWriter, r *http.Request) error {
	var in api.RunCode
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if in.Language != "" && in.Context != "" {
		return api.Errorf(api.KindInvalid, "language and context are both set: a context has its language")
	}
	resp, err := d.askInterpreter(r, "POST", "execute", map[string]any{"code": in.Code, "language": in.Language, "context_id": in.Context, "env_vars": in.Env, "dir": codeDir})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.Header().Set("Content-Type", typeLines)
	rc := http.NewResponseController(w)
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxCodeEvent)
	to := json.NewEncoder(w)
	for lines.Scan() {
		e, ok := codeEvent(lines.Bytes())
		if !ok {
			continue
		}
		if to.Encode(e) != nil || rc.Flush() != nil {
			return nil // the client is gone
		}
	}
	if lines.Err() != nil {
		panic(http.ErrAbortHandler) // the client sees that the end is missing
	}
	return nil
}

// codeEvent reads an event of an interpreter. It returns false for what clients do not know.
func codeEvent(line []byte) (e api.CodeEvent, ok bool) {
	var from struct {
		Type      string `json:"type"`
		Count     int    `json:"execution_count"`
		Text      string `json:"text"`
		Main      bool   `json:"is_main_result"`
		Name      string `json:"name"`
		Value     string `json:"value"`
		Traceback string `json:"traceback"`
	}
	if json.Unmarshal(line, &from) != nil {
		return e, false
	}
	e = api.CodeEvent{Type: api.CodeEventKind(from.Type), Text: from.Text, Main: from.Main, Name: from.Name, Value: from.Value, Traceback: from.Traceback}
	switch from.Type {
	case "number_of_executions":
		e.Type, e.Count = api.CodeStarted, from.Count
	case "result":
		if json.Unmarshal(line, &e.Formats) != nil {
			return e, false
		}
		for _, name := range []string{"type", "text", "is_main_result"} {
			delete(e.Formats, name)
		}
	case "stdout", "stderr", "error":
	default:
		return e, false
	}
	return e, true
}
