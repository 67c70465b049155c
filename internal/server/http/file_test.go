package http_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/envd"
	httpapi "hortus.dev/internal/server/http"
)

// TestFiles: the routes of files pass content on, start relative paths where commands do, and
// answer errors of the guest with problems.
func TestFiles(t *testing.T) {
	var mu sync.Mutex
	var got []string
	f := &fakes{}
	message := func(r *http.Request, m envd.Message) (kind, text string) {
		kind = r.Header.Get("Content-Type")
		codec, _ := envd.CodecOf(kind, false)
		b, err := envd.Append(nil, codec, m)
		if err != nil {
			t.Error(err)
		}
		return kind, string(b)
	}
	f.guest = func(c net.Conn) {
		r := request(c)
		if r == nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.Method+" "+r.URL.RequestURI()+" "+string(body)+" version="+r.Header.Get("Hortus-Version")+" key="+r.Header.Get("X-Api-Key"))
		mu.Unlock()
		status, kind, text := "200 OK", "application/octet-stream", "pear"
		switch {
		case strings.Contains(r.URL.RawQuery, "none") || strings.Contains(string(body), "none"):
			status, kind, text = "404 Not Found", "application/json", `{"code":404,"message":"path '/workspace/none' does not exist"}`
			if strings.HasPrefix(r.URL.Path, "/filesystem.") {
				text = `{"code":"not_found","message":"path '/workspace/none' does not exist"}`
			}
		case r.Method == "POST" && r.URL.Path == "/files":
			kind, text = "application/json", `[{"name":"a","path":"/workspace/a","type":"file"}]`
		case strings.HasSuffix(r.URL.Path, "ListDir"):
			kind, text = message(r, &envd.ListDirResponse{Entries: []*envd.EntryInfo{{Name: "a", Path: "/workspace/a", Type: envd.FileTypeFile, Size: 4}}})
		case strings.HasSuffix(r.URL.Path, "Remove"):
			kind, text = message(r, &envd.Empty{})
		case strings.HasPrefix(r.URL.Path, "/filesystem."):
			kind, text = message(r, &envd.EntryResponse{Entry: &envd.EntryInfo{Name: "d", Path: "/workspace/d", Type: envd.FileTypeDirectory}})
		}
		io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: "+kind+"\r\nContent-Length: "+strconv.Itoa(len(text))+"\r\nConnection: close\r\n\r\n"+text)
	}
	_, path := serve(t, f)
	one := "/v1/sandboxes/" + string(f.id) + "/files"
	for _, c := range []struct {
		method, url, body string
		status            int
		says, asked       string
	}{
		{"GET", one + "?path=a&user=root", "", 200, "pear", "GET /files?path=a&username=root  version=1 key="},
		{"PUT", one + "?path=a", "plum", 200, `"/workspace/a"`, "POST /files?path=a plum version=1 key="},
		{"GET", one + "/list?path=.&depth=2", "", 200, `"type":"file","size":4`, ""},
		{"GET", one + "/info?path=d", "", 200, `"type":"directory"`, ""},
		{"PUT", one + "/directory?path=d", "", 201, `"type":"directory"`, ""},
		{"POST", one + "/move?path=a&to=d", "", 200, `"path":"/workspace/d"`, ""},
		{"GET", one + "?path=none", "", 404, `"kind":"not_found"`, ""},
		{"GET", one + "/info?path=none", "", 404, `"kind":"not_found"`, ""},
		{"GET", strings.Replace(one, "/files", "/envd/files", 1) + "?path=none", "", 404, `"kind":"not_found"`, "GET /files?path=none  version=1 key="},
		{"GET", one, "", 400, `parameter \"path\" is missing`, ""},
		{"GET", one + "/list?path=.&depth=0", "", 400, "depth", ""},
	} {
		mu.Lock()
		got = nil
		mu.Unlock()
		resp, text := send(t, path, c.method, c.url, c.body, "X-Api-Key", "k")
		if resp.StatusCode != c.status || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d %s", c.method, c.url, resp.StatusCode, text)
		}
		var p api.Problem
		if err := json.Unmarshal([]byte(text), &p); c.status >= 400 && (err != nil || p.Status != c.status || resp.Header.Get("Content-Type") != "application/problem+json") {
			t.Errorf("%s %s: no problem: %s", c.method, c.url, text)
		}
		mu.Lock()
		if c.asked != "" && (len(got) != 1 || got[0] != c.asked) {
			t.Errorf("%s %s: the guest got %q", c.method, c.url, got)
		}
		mu.Unlock()
	}
	if resp, text := send(t, path, "DELETE", one+"?path=d", ""); resp.StatusCode != http.StatusNoContent || text != "" {
		t.Errorf("DELETE: %s %s", resp.Status, text)
	}
	got = nil
	f.stored = api.Errorf(api.KindExhausted, "account \"a\" has no space left").WithHint("remove something")
	if resp, text := send(t, path, "PUT", one+"?path=a", "x"); resp.StatusCode != http.StatusTooManyRequests || !strings.Contains(text, "remove something") || len(got) != 0 {
		t.Errorf("PUT at the ceiling of the account: %s %s, the guest got %q", resp.Status, text, got)
	}
	if resp, text := send(t, path, "GET", one+"?path=a", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("GET at the ceiling of the account: %s %s", resp.Status, text)
	}
}

// TestFilesInTheDocument: a client that is generated from the document can read and write files.
func TestFilesInTheDocument(t *testing.T) {
	spec, err := httpapi.New(httpapi.Config{}).Spec()
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(spec, &doc); err != nil {
		t.Fatal(err)
	}
	for path, item := range doc["paths"].(map[string]any) {
		if op, ok := item.(map[string]any)["get"].(map[string]any); ok && at(op, "requestBody", "required") == true {
			t.Errorf("GET %s needs a body", path)
		}
	}
	for _, method := range []string{"get", "put", "delete"} {
		params, _ := at(doc, "paths", "/v1/sandboxes/{id}/files", method, "parameters").([]any)
		found := false
		for _, p := range params {
			found = found || at(p.(map[string]any), "name") == "path" && at(p.(map[string]any), "required") == true
		}
		if !found {
			t.Errorf("%s has no path", method)
		}
	}
}
