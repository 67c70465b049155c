package daemon

import (
	"testing"

	"hortus.dev/api"
	"hortus.dev/client"
	"hortus.dev/test/world"
)

// TestSecretInPrograms uses secrets with real programs, in forks and after a pause. test/story
// has the same after the daemon was killed.
func TestSecretInPrograms(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		v.Set("head", v.At("example.com", "/header", world.InHeader))
		v.Set("param", v.At("example.com", "/query", world.InQuery))
		v.Set("pass", v.At("example.com", "/basic", world.InBasic))
		s := v.Sandbox(api.CreateSandbox{}, "head", "param", "pass")
		world.Needs(v.T, s, "curl", "python3")
		at := "https://example.com:" + v.Out.Port
		header := `curl -sS -H "Authorization: Bearer $HEAD" ` + at + "/header"
		for _, c := range []struct{ what, script, name string }{
			{"curl, header", header, "head"},
			{"curl, header over HTTP/1.1", header + " --http1.1", "head"},
			{"curl, query", `curl -sS "` + at + `/query?a=b&key=$PARAM"`, "param"},
			{"curl, basic", `curl -sS -u "me:$PASS" ` + at + `/basic`, "pass"},
			{"python, header", `python3 -c 'import os, urllib.request as u; print(u.urlopen(u.Request("` + at + `/header", headers={"Authorization": "Bearer " + os.environ["HEAD"]})).read().decode())'`, "head"},
		} {
			v.Works(c.what, s, c.script, c.name)
		}
		if got := v.Refusals(s.ID()); got != nil {
			v.T.Errorf("alarms: %+v", got)
		}
		v.Refused("the placeholder of another place", s, `curl -sS "`+at+`/query?a=b&key=$HEAD"`)

		forks(v, s, header, `curl -sS -u "me:$PASS" `+at+`/basic`)
		if v.Isolation == "gvisor" {
			world.Must(s.PauseToDisk(v.T.Context()))(v.T)
			world.Must(s.Resume(v.T.Context()))(v.T)
			v.Works("after a pause to disk", s, header, "head")
			v.Refused("after a pause to disk, in another place", s, `curl -sS "`+at+`/query?key=$HEAD"`)
		}
	})
}

// forks forks a sandbox with and without the secret head; no child has the secret pass.
func forks(v *world.Vault, s *client.Sandbox, head, pass string) {
	v.T.Helper()
	if _, err := s.Fork(v.T.Context(), api.ForkSandbox{Secrets: []string{"unknown"}}); api.KindOf(err) != api.KindInvalid {
		v.T.Errorf("a fork with a secret that the parent has not: %v", err)
	}
	without, with := v.Fork(s), v.Fork(s, "head")
	v.Refused("in a fork without it", without, head)
	v.Works("in a fork with it", with, head, "head")
	v.Refused("another secret in a fork", with, pass)
	v.Works("in the parent of forks", s, head, "head")
}
