package githttp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// TestSend sends a push to servers that answer before or after they have read it, over HTTP/1.1
// and HTTP/2. A refused one is a refusal for the client and an error for the server.
func TestSend(t *testing.T) {
	old := commitText("old")
	a, lie := commitText("a", commitName(old)), commitText("lie")
	blob := crafted{kind: packBlob, content: []byte(randomText(2 << 20))}
	for _, two := range []bool{false, true} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("http2=%v/early=%v", two, early), func(t *testing.T) {
				type result struct {
					n   int64
					err error
				}
				got := make(chan result, 1)
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", resultType(receivePack))
					if early {
						c := http.NewResponseController(w)
						if !two {
							if err := c.EnableFullDuplex(); err != nil {
								t.Error(err)
							}
						}
						w.WriteHeader(http.StatusOK)
						if err := c.Flush(); err != nil {
							t.Error(err)
						}
					}
					n, err := io.Copy(io.Discard, r.Body)
					got <- result{n, err}
					_, _ = io.WriteString(w, "answer")
				}))
				server.EnableHTTP2 = two
				server.StartTLS()
				defer server.Close()
				u, err := url.Parse(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range [][]byte{lie, a} {
					whole := append(listOf("", commitName(old)+" "+commitName(c)+" refs/heads/hortus/x"), packOf(crafted{kind: packCommit, content: c}, blob)...)
					out, err := Check(sandboxRule(), post(t, receivePack, bytes.NewReader(whole)))
					if err != nil {
						t.Fatal(err)
					}
					out.URL.Scheme, out.URL.Host, out.RequestURI = u.Scheme, u.Host, ""
					resp, err := Send(server.Client().Transport, out)
					read := <-got
					if bytes.Equal(c, lie) {
						var refused *Refusal
						if !errors.As(err, &refused) || read.err == nil || read.n > int64(len(whole)-20) {
							t.Errorf("the error is %v; the server has read %d of %d bytes, %v", err, read.n, len(whole), read.err)
						}
						continue
					}
					if err != nil || read.err != nil || read.n != int64(len(whole)) {
						t.Fatalf("control: %v; the server has read %d of %d bytes, %v", err, read.n, len(whole), read.err)
					}
					if want := map[bool]int{false: 1, true: 2}[two]; resp.ProtoMajor != want {
						t.Errorf("HTTP/%d", resp.ProtoMajor)
					}
					if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "answer" {
						t.Errorf("the answer is %q, %v", b, err)
					}
					_ = resp.Body.Close()
				}
			})
		}
	}
}
