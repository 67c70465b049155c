package http

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	"hortus.dev/api"
)

// node is an object of the OpenAPI document. encoding/json sorts its keys, so that
// the document is the same every time.
type node = map[string]any

func (d *Server) specRoutes() []Route {
	// It is for everybody, and takes a while to make.
	spec := sync.OnceValues(d.Spec)
	return []Route{{
		Method: "GET", Pattern: "/v1/openapi.json", Name: "openapi", Open: true,
		Doc:     "Get this document.",
		OutType: typeJSON,
		Handler: func(w http.ResponseWriter, _ *http.Request) error {
			b, err := spec()
			if err != nil {
				return api.Errorf(api.KindInternal, "cannot create the OpenAPI document: %w", err)
			}
			w.Header().Set("Content-Type", typeJSON)
			_, _ = w.Write(b)
			return nil
		},
	}}
}

// Spec returns the OpenAPI 3.1 document of the server's table. It depends on the build
// alone.
func (d *Server) Spec() ([]byte, error) {
	s := newSchemas()
	paths := node{}
	for rt := range d.Routes() {
		path := rt.Pattern
		if strings.HasSuffix(path, "/") {
			path += "{rest}"
		}
		item, _ := paths[path].(node)
		if item == nil {
			item = node{}
			paths[path] = item
		}
		if rt.Method != "" {
			item[strings.ToLower(rt.Method)] = operation(s, rt, path, rt.Name)
			continue
		}
		// What is passed on as it is has the methods that the guest's wire has.
		for _, m := range []string{http.MethodGet, http.MethodPost} {
			item[strings.ToLower(m)] = operation(s, rt, path, rt.Name+titled(strings.ToLower(m)))
		}
	}
	problem := node{"description": "The request failed.", "content": node{typeProblem: node{"schema": s.of(api.Problem{})}}}
	doc := node{
		"openapi": "3.1.0",
		"info": node{
			"title": "Hortus", "version": "1",
			"description": "Sandboxes for untrusted code, and verified programs from a sentence. See docs/api.md.",
			"license":     node{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers": []any{node{"url": "/"}},
		"paths":   paths,
		"components": node{
			"schemas":         s.defined,
			"responses":       node{"Problem": problem},
			"securitySchemes": node{"key": node{"type": "apiKey", "in": "header", "name": "X-API-Key"}},
		},
		"security": []any{node{"key": []any{}}},
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	return append(b, '\n'), err
}

func operation(s *schemas, rt Route, path, name string) node {
	summary, _, _ := strings.Cut(rt.Doc, ". ")
	op := node{
		"operationId": name, "summary": strings.TrimSuffix(summary, "."), "description": rt.Doc,
		"responses": node{status(rt.Status): success(s, rt), "default": node{"$ref": "#/components/responses/Problem"}},
	}
	if rt.Events != nil {
		op["responses"].(node)[status(0)] = node{"description": "Events, up to the last.", "content": node{typeEvents: node{"schema": s.of(rt.Events)}}}
	}
	if rt.Waits {
		responses, lines := op["responses"].(node), node{"schema": s.of(api.WaitLine{})}
		if ok, is := responses[status(0)].(node); is {
			ok["content"].(node)[typeLines] = lines
		} else {
			responses[status(0)] = node{"description": "What the request waits for, and its answer.", "content": node{typeLines: lines}}
		}
	}
	if params := parameters(s, rt, path); len(params) > 0 {
		op["parameters"] = params
	}
	if rt.In != nil || rt.InType != "" {
		kind, schema := typeJSON, node{}
		if rt.In != nil {
			schema = s.of(rt.In)
		}
		if rt.InType != "" {
			kind = rt.InType
		}
		op["requestBody"] = node{"required": !rt.Optional, "content": node{kind: node{"schema": schema}}}
	}
	switch {
	case rt.Open:
		op["security"] = []any{}
	case rt.Role == api.RoleAdmin:
		op["x-role"] = string(rt.Role)
	}
	return op
}

// success is the answer of a request that did not fail.
func success(s *schemas, rt Route) node {
	out := node{"description": http.StatusText(statusOf(rt.Status))}
	if rt.Paged {
		out["headers"] = node{headerNext: node{
			"schema": node{"type": "string"}, "description": "Start of the next page, for the parameter cursor. The last page has none.",
		}}
	}
	if rt.Out == nil && rt.OutType == "" {
		return out
	}
	kind, schema := typeJSON, node{}
	if rt.Out != nil {
		schema = s.of(rt.Out)
	}
	if rt.OutType != "" {
		kind = rt.OutType
	}
	out["content"] = node{kind: node{"schema": schema}}
	return out
}

func parameters(s *schemas, rt Route, path string) []any {
	var out []any
	for rest := path; ; {
		_, after, ok := strings.Cut(rest, "{")
		if !ok {
			break
		}
		name, tail, _ := strings.Cut(after, "}")
		out = append(out, node{"name": name, "in": "path", "required": true, "schema": node{"type": "string"}})
		rest = tail
	}
	for _, p := range rt.all() {
		in := "query"
		if p.Header {
			in = "header"
		}
		param := node{"name": p.Name, "in": in, "description": p.Doc, "schema": s.of(p.Type)}
		if p.Required {
			param["required"] = true
		}
		out = append(out, param)
	}
	if rt.Creates {
		out = append(out, node{
			"name": headerKey, "in": "header", "schema": node{"type": "string", "minLength": 1, "maxLength": maxKey},
			"description": "A repeated request with the same key returns the same answer and creates nothing again.",
		})
	}
	return out
}

func statusOf(n int) int {
	if n == 0 {
		return http.StatusOK
	}
	return n
}

func titled(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
