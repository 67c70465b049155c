package broker

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"hortus.dev/internal/egress/web"
)

// BenchmarkRequest compares requests over HTTP/2: without a broker, with a session that has no
// grants, with grants for another server, and with a secret in the request.
func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{100, 16 << 20} {
		for _, mode := range []string{"plain", "no grants", "other server", "secret"} {
			b.Run(strconv.Itoa(size)+" bytes/"+mode, func(b *testing.B) {
				r := newRig(b)
				part := []byte(strings.Repeat("some text of an answer, in lines\n", 2000))
				r.https(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for left := size; left > 0; {
						n, _ := w.Write(part[:min(left, len(part))])
						left -= n
					}
				}), "api.example.org:443")
				header := "Bearer harmless-text-that-is-as-long-as-a-placeholder"
				switch mode {
				case "plain":
					r.server.Close()
					ca, _ := newCA(b, 1)
					r.server = web.New(web.Config{Leaf: ca.Leaf, Roots: r.roots})
					b.Cleanup(r.server.Close)
				case "other server":
					s := bearer("token")
					s.Bindings[0].Host = "other.example.org"
					r.grant(s)
				case "secret":
					header = "Bearer " + r.grant(bearer("token"))[0]
				}
				c := r.client(true)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					resp, err := c.Do(request(b, "POST", "https://api.example.org/v1/a", strings.NewReader(`{"a":1}`), "Authorization", header))
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(size) || resp.StatusCode != 200 {
						b.Fatal(n, err, resp.StatusCode)
					}
					resp.Body.Close()
				}
			})
		}
	}
}

// BenchmarkLocate searches the head of a request without a placeholder.
func BenchmarkLocate(b *testing.B) {
	r := request(b, "GET", "https://api.example.org/v1/some/longer/path/of/a/request?with=query&and=more", nil,
		"Authorization", "Bearer "+strings.Repeat("x", 60), "User-Agent", "some-program/1.2.3 (linux; amd64) with-a-longer-text/4.5.6", "Accept", "*/*", "Content-Type", "application/json")
	b.ReportAllocs()
	for b.Loop() {
		if locate(r) != nil {
			b.Fatal("found")
		}
	}
}

// BenchmarkStream searches and redacts bytes.
func BenchmarkStream(b *testing.B) {
	text := strings.Repeat("some text of an answer, in lines\n", 1<<20/33)
	red := newRedactor(map[string]string{secretValue: "x", "another-value-of-a-secret-0123456789": "y"})
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		part := []byte(text[:32<<10])
		for b.Loop() {
			var s scanner
			for range len(text) / len(part) {
				if s.scan(part) != "" {
					b.Fatal("found")
				}
			}
		}
	})
	b.Run("redact", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := io.Copy(io.Discard, &searchedStream{r: red, src: strings.NewReader(text)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("make", func(b *testing.B) {
		for b.Loop() {
			newRedactor(map[string]string{secretValue: "x"})
		}
	})
}
