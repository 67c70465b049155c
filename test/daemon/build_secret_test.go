package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/test/world"
)

// TestBuildSecrets: a step of a build that uses a secret has it neither itself nor leaves it to a later step, to a template,
// or to the daemon's files. That the step uses it is the control.
func TestBuildSecrets(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		value := v.Set("registry", v.At("example.com", "/package", world.InHeader))
		v.Set("other", v.At("example.com", "/other", world.InHeader))
		at := "https://example.com:" + v.Out.Port
		fetch := func(placeholder string) string {
			return `curl -sS -H "Authorization: Bearer ` + placeholder + `" ` + at + `/package`
		}
		build := func(name, file string, granted map[string]string) (api.Snapshot, string, error) {
			v.T.Helper()
			var log strings.Builder
			s, err := v.Client.Templates.Build(v.T.Context(), api.BuildTemplate{
				Name: name, Dockerfile: file, Isolation: v.Isolation, Limits: api.Limits{MemoryBytes: 2 << 30}, Egress: v.Policy(), Secrets: granted,
			}, func(l api.BuildLine) {
				if l.Output != nil {
					log.WriteString(*l.Output + "\n")
				}
				log.WriteString(l.Step + "\n")
			})
			return s, log.String(), err
		}
		// A hostile step keeps what it finds, and leaves a process that holds it.
		const mount = "--mount=type=secret,id=token,required=true --mount=type=secret,id=token,env=TOKEN"
		file := "FROM host\nENV KEPT=/home/user/kept\n" +
			"RUN " + mount + ` echo "file $(stat -c %a:%U /run/secrets/token)"; [ "$TOKEN" = "$(cat /run/secrets/token)" ] && cp /run/secrets/token $KEPT && ` + fetch("$TOKEN") + " && (setsid sleep 1000 </dev/null >/dev/null 2>&1 &)\n"
		steal := `echo "left: $(ls /run/secrets 2>/dev/null) $(env | grep -c -e TOKEN -e hortus-secret)"; ` + fetch(`$(cat $KEPT)`) + "; true"
		v.Take()
		s, log, err := build("tool", file+"RUN "+steal, map[string]string{"token": "registry"})
		seen := v.Take()
		if err != nil {
			v.T.Fatalf("%v\n%s", err, log)
		}
		if n := strings.Count(seen, value); n == 0 || strings.Contains(seen, "hortus-secret-") {
			v.T.Errorf("the server of the control got %s", seen)
		}
		if n := strings.Count(seen, "GET /package"); n != 1 {
			v.T.Errorf("%d requests reached the server, want that of the first step alone: %s", n, seen)
		}
		if !strings.Contains(log, "file 400:user") || !strings.Contains(log, "hello Bearer hortus-secret-") || !strings.Contains(log, "left:  0\n") || strings.Contains(log, value) {
			v.T.Errorf("the log of the build: %s", log)
		}

		// A sandbox of the template has the placeholder that the step kept, and it is worth nothing, even if the sandbox may use
		// the same secret itself.
		box := v.Sandbox(api.CreateSandbox{Template: string(s.ID)})
		if out, err := v.Sh(box, "cat $KEPT"); err != nil || !strings.HasPrefix(out, "hortus-secret-") {
			v.T.Errorf("the control: what the step kept is %q, %v", out, err)
		}
		if out, err := v.Sh(box, steal); strings.Contains(out, "hello") || !strings.Contains(out, "left:  0\n") {
			v.T.Errorf("in a sandbox of the template: %s, %v", out, err)
		}
		granted := v.Sandbox(api.CreateSandbox{Template: string(s.ID)}, "registry")
		v.Works("the control: a sandbox of the template with the secret", granted, fetch("$REGISTRY"), "registry")
		if out, _ := v.Sh(granted, fetch(`$(cat $KEPT)`)); strings.Contains(out, "hello") {
			v.T.Errorf("the placeholder of the step in a sandbox with the secret: %s", out)
		}
		if seen := v.Take(); strings.Contains(seen, value) || strings.Contains(seen, "hortus-secret-") {
			v.T.Errorf("the server got %s", seen)
		}

		// Rows and files of the daemon.
		rows, err := v.Client.Snapshots.List(v.T.Context(), true)
		text, _ := json.Marshal(rows)
		if err != nil || !strings.Contains(string(text), "/home/user/kept") || strings.Contains(string(text), value) || strings.Contains(string(text), "hortus-secret-") {
			v.T.Errorf("the snapshots have %s, %v", text, err)
		}
		for _, at := range []string{string(v.Dir), v.Log} {
			if found := holding(v.T, at, value); found != nil {
				v.T.Errorf("the value is in %q", found)
			}
		}
		if holding(v.T, string(v.Dir), "/home/user/kept") == nil {
			v.T.Error("the control: what a step wrote is in no file of the daemon")
		}

		// Only what the user permits, by the names that the user gives it.
		v.Take()
		for name, ask := range map[string]map[string]string{"nothing": nil, "another": {"token": "other"}} {
			_, log, err := build("denied", "FROM host\nRUN "+strings.ReplaceAll(mount, ",required=true", "")+" "+fetch("$TOKEN")+"; cat /run/secrets/*; true", ask)
			if seen := v.Take(); err != nil || strings.Contains(seen, "canary") || strings.Contains(log, "hortus-secret-") != (ask != nil) {
				v.T.Errorf("with %s permitted: %s %v; the server got %s", name, log, err, seen)
			}
		}
		if _, _, err := build("denied", "FROM host\nRUN "+mount+" true", nil); api.KindOf(err) != api.KindInvalid || !strings.Contains(fmt.Sprint(err), `requires the secret "token"`) {
			v.T.Errorf("a required secret that is not permitted: %v", err)
		}
		if _, _, err := build("denied", "FROM host\nRUN --mount=type=secret,id=registry,required=true true", map[string]string{"registry": "none"}); api.KindOf(err) != api.KindNotFound {
			v.T.Errorf("a secret that is not there: %v", err)
		}

		bob := v.As(v.Key("bob", api.RoleUser))
		_, err = bob.Templates.Build(v.T.Context(), api.BuildTemplate{Name: "bobs", Isolation: v.Isolation, Egress: v.Policy(),
			Dockerfile: "FROM host\nRUN --mount=type=secret,id=registry true", Secrets: map[string]string{"registry": "registry"}}, func(api.BuildLine) {})
		if api.KindOf(err) != api.KindNotFound {
			v.T.Errorf("a secret of another account: %v", err)
		}

		// The value is in no key: a new value runs nothing, and another secret does.
		delete(v.Value, "registry")
		v.Set("registry", v.At("example.com", "/package", world.InHeader))
		v.Set("mirror", v.At("example.com", "/package", world.InHeader))
		v.Take()
		if _, log, err := build("tool", file+"RUN "+steal, map[string]string{"token": "registry"}); err != nil || !strings.Contains(log, "every step is cached") {
			v.T.Errorf("with a new value: %v %s", err, log)
		}
		if _, log, err := build("tool", file+"RUN "+steal, map[string]string{"token": "mirror"}); err != nil || strings.Contains(log, "cached: RUN") {
			v.T.Errorf("with another secret: %v %s", err, log)
		}
		if seen := v.Take(); !strings.Contains(seen, v.Value["mirror"]) || strings.Contains(seen, v.Value["registry"]) {
			v.T.Errorf("the server got %s", seen)
		}
		uses := map[string]bool{}
		for u, err := range v.Client.Secrets.Uses(v.T.Context(), secrets.UseFilter{}) {
			if err != nil {
				v.T.Fatal(err)
			}
			uses[u.Secret] = uses[u.Secret] || u.Refused == ""
		}
		if !uses["registry"] || !uses["mirror"] || uses["other"] {
			v.T.Errorf("the recorded uses are of %v", uses)
		}
	})
}
