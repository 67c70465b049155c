package registrycache

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestForwarded(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"authorization": func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") },
		"cookie":        func(r *http.Request) { r.Header.Set("Cookie", "x=y") },
		"token":         func(r *http.Request) { r.Header.Set("X-Private-Token", "x") },
		"user":          func(r *http.Request) { r.URL.User = url.UserPassword("a", "b") },
		"query":         func(r *http.Request) { r.URL.RawQuery = "sig=x" },
		"range":         func(r *http.Request) { r.Header.Set("Range", "bytes=0-3") },
		"conditional":   func(r *http.Request) { r.Header.Set("If-None-Match", `"1"`) },
		"post":          func(r *http.Request) { r.Method = "POST" },
		"one-time":      func(r *http.Request) { r.Header.Set("Npm-Otp", "1") },
		"unknown":       func(r *http.Request) { r.Header.Set("X-Original-Url", "/other") },
		"port":          func(r *http.Request) { r.Host = r.URL.Hostname() + ":1" },
		"host":          func(r *http.Request) { r.Host = "other.example" },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			g.get("a", tarball)
			for range 2 { // neither answered from the cache, nor stored
				r := g.request("a", tarball)
				change(r)
				if _, _, err := g.do(r); err != nil {
					t.Fatal(err)
				}
			}
			g.fetches(name, 3)
			if s := g.Stats(); name != "post" && s.Forwarded != 2 || s.Misses != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
	ordinary := newRig(t, nil)
	for range 2 {
		r := ordinary.request("a", tarball)
		for _, h := range []string{"User-Agent", "Accept", "Npm-Command", "Npm-Auth-Type", "Pacote-Req-Type"} {
			r.Header.Set(h, "x")
		}
		if _, _, err := ordinary.do(r); err != nil {
			t.Error(err)
		}
	}
	ordinary.fetches("control: the headers of a package manager", 1)
}

func TestNotStored(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound); fmt.Fprint(w, "x") },
		"no-store": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=1, No-Store")
			fmt.Fprint(w, "x")
		},
		"private": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "private")
			fmt.Fprint(w, "x")
		},
		"cookie": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "a=b"); fmt.Fprint(w, "x") },
		"vary": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Vary", "Authorization")
			fmt.Fprint(w, "x")
		},
		"vary, program": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Vary", "Accept-Encoding, User-Agent")
			fmt.Fprint(w, "x")
		},
		"vary, type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Vary", "Accept")
			fmt.Fprint(w, "x")
		},
		"encoding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			fmt.Fprint(w, "x")
		},
		"expired": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=0")
			fmt.Fprint(w, "x")
		},
		"page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<p>Log in</p>")
		},
		"empty": func(w http.ResponseWriter, _ *http.Request) {},
		"too large": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "5000")
			w.Write(make([]byte, 5000))
		},
		"no length":   func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); fmt.Fprint(w, "x") },
		"redirection": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, func(c *Config) { c.MaxArtifact = 4000 })
			g.handle(h)
			first := g.get("a", tarball)
			if second := g.get("a", tarball); first != second {
				t.Errorf("got %q and %q", first, second)
			}
			g.fetches(name, 2)
		})
	}
}

func TestArtifactOf(t *testing.T) {
	h := strings.Repeat("ab", 32)
	pypi := "/packages/" + h[:2] + "/" + h[2:4] + "/" + h[4:]
	for raw, want := range map[string]bool{
		"https://npm.example.org/left-pad/-/left-pad-1.3.0.tgz":            true,
		"https://npm.example.org/@a/b/-/b-1.0.0.tgz":                       true,
		"https://mirror.example/api/npm/x/left-pad/-/left-pad-1.3.0.tgz":   true,
		"http://npm.example.org/left-pad/-/left-pad-1.3.0.tgz":             false,
		"https://npm.example.org/left-pad":                                 false,
		"https://npm.example.org/-/npm/v1/security/advisories":             false,
		"https://npm.example.org/x/-/../../-/y.tgz":                        false,
		"https://npm.example.org/x/-/%2e%2e/-/y.tgz":                       false,
		"https://files.example.org" + pypi + "/x-1.0-py3-none-any.whl":     true,
		"https://files.example.org" + pypi + "/":                           false,
		"https://files.example.org/packages/source/x/x/x-1.tar.gz":         false,
		"https://pip.example.org/simple/x/":                                false,
		"https://proxy.example.org/golang.org/x/sys/@v/v0.1.0.zip":         true,
		"https://proxy.example.org/golang.org/x/sys/@v/v0.1.0.mod":         true,
		"https://proxy.example.org/x/@v/v0.0.0-20260101000000-abcdef.info": true,
		"https://proxy.example.org/x/@v/v2.0.0+incompatible.info":          true,
		"https://proxy.example.org/golang.org/x/sys/@v/list":               false,
		"https://proxy.example.org/golang.org/x/sys/@v/main.info":          false,
		"https://proxy.example.org/golang.org/x/sys/@v/v1.info":            false,
		"https://proxy.example.org/golang.org/x/sys/@v/v1.2.info":          false,
		"https://proxy.example.org/golang.org/x/sys/@v/v1.2.x.info":        false,
		"https://proxy.example.org/golang.org/x/sys/@latest":               false,
		"http://deb.example.org/debian/pool/main/a/apt/apt_2.9_amd64.deb":  true,
		"http://deb.example.org/debian/dists/stable/InRelease":             false,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := artifactOf(u); ok != want {
			t.Errorf("%s: %v", raw, ok)
		}
	}
}

func FuzzArtifactOf(f *testing.F) {
	f.Add("https://h/a/-/b.tgz")
	f.Add("https://h/packages/ab/cd/ef/x")
	f.Add("https://h/x/@v/v1.2.3.zip")
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		if a, ok := artifactOf(u); ok && (strings.Contains(u.Path, "/../") || a.digest != nil && len(a.digest) != 32) {
			t.Errorf("%q is an artifact", raw)
		}
	})
}
