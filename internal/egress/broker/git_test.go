package broker

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"hortus.dev/api/secrets"
)

// TestGit has hooks decide about requests of git: none, a check only, and all of them.
func TestGit(t *testing.T) {
	secret := bearer("git")
	secret.Bindings[0].Git = &secrets.Git{Repository: "/o/r", Fetch: true}
	denied := errors.New("git: not allowed")
	for _, hooks := range []string{"none", "check", "all"} {
		var seen string
		sent := 0
		r := newRig(t, func(c *Config) {
			if hooks == "none" {
				return
			}
			c.Git.Check = func(rule secrets.Git, r *http.Request) (*http.Request, error) {
				seen += r.Header.Get("Authorization")
				if !strings.HasPrefix(r.URL.Path, rule.Repository+"/") {
					return nil, denied
				}
				if r.URL.Path == "/o/r/read" {
					if _, err := io.ReadAll(r.Body); err != nil {
						return nil, err
					}
				}
				return r, nil
			}
			if hooks == "check" {
				return
			}
			c.Git.Send = func(rt http.RoundTripper, r *http.Request) (*http.Response, error) {
				sent++
				if r.URL.Path == "/o/r/late" {
					return nil, denied
				}
				return rt.RoundTrip(r)
			}
			c.Git.Refused = func(err error) (int, string, []byte, bool) {
				return 200, "application/x-git", []byte("ng refs/heads/main"), err == denied
			}
		})
		var s sink
		r.https(&s, "api.example.org:443")
		p := r.grant(secret)[0]
		for path, want := range map[string]map[string]string{
			"/o/r/info/refs": {"none": "not supported", "check": "fine", "all": "fine"},
			"/o/x/info/refs": {"none": "not supported", "check": "git: not allowed", "all": "ng refs"},
			"/o/r/late":      {"none": "not supported", "check": "fine", "all": "ng refs"},
			"/o/r/read":      {"none": "not supported", "check": "the body", "all": "the body"},
		} {
			text := "harmless"
			if path == "/o/r/read" {
				text = p
			}
			resp, err := r.client(false).Do(request(t, "POST", "https://api.example.org"+path, strings.NewReader(text), "Authorization", p))
			if err != nil {
				t.Fatal(err)
			}
			fine := want[hooks] == "fine"
			answer := readAll(t, resp)
			if got := s.take(); !strings.Contains(answer, want[hooks]) || fine != strings.Contains(got, secretValue) || !fine && got != "" || strings.Contains(seen, secretValue) {
				t.Errorf("%s %s: %d %q, the server got %q", hooks, path, resp.StatusCode, answer, got)
			}
			if ct := resp.Header.Get("Content-Type"); strings.HasPrefix(answer, "ng") != (ct == "application/x-git") {
				t.Errorf("%s %s: %s", hooks, path, ct)
			}
			if refused, used := r.alarms(); (len(refused) == 0) != fine || (len(used) == 1) != fine {
				t.Errorf("%s %s: refused %+v, used %+v", hooks, path, refused, used)
			}
		}
		if hooks == "all" && sent != 2 {
			t.Errorf("%d requests were sent by the hook", sent)
		}
	}
}
