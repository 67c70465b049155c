package daemon

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/test/world"
)

// TestBuildSteps builds what Dockerfiles commonly have, with each isolation: users that a step creates, here-documents, ADD,
// and an entrypoint that the cache, a stage and a template keep.
func TestBuildSteps(t *testing.T) {
	world.Both(t, func(v *world.Vault) {
		var inner, outer bytes.Buffer
		w := tar.NewWriter(&inner)
		w.WriteHeader(&tar.Header{Name: "top/unpacked", Mode: 0o644, Size: 4})
		w.Write([]byte("text"))
		w.Close()
		w = tar.NewWriter(&outer)
		for name, data := range map[string]string{"a.tar": inner.String(), "plain.gz": "\x1f\x8bno archive"} {
			w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data))})
			w.Write([]byte(data))
		}
		w.Close()
		files, err := v.Client.Templates.Upload(v.T.Context(), &outer)
		if err != nil {
			v.T.Fatal(err)
		}
		build := func(name, file string) (api.Snapshot, string, error) {
			v.T.Helper()
			var log strings.Builder
			s, err := v.Client.Templates.Build(v.T.Context(), api.BuildTemplate{Name: name, Dockerfile: file, Files: files, Isolation: v.Isolation}, func(l api.BuildLine) {
				if l.Output != nil {
					log.WriteString(*l.Output + "\n")
				}
				log.WriteString(l.Step + "\n")
			})
			return s, log.String(), err
		}
		const users = "FROM host\nUSER root\nRUN printf 'app:x:1500:1500::/srv/app:/bin/sh\\ntoor:x:0:0::/:/bin/sh\\nguest:x:65533:65533::/:/bin/sh\\n' >>/etc/passwd && echo extra:x:1600:app >>/etc/group\n"
		s, log, err := build("app", users+`WORKDIR /srv/app
RUN chown 1500 .
USER app
RUN <<EOF
set -e
echo "step $(id -u) $(id -G) $HOME $(pwd)"
EOF
USER app:extra
RUN <<'END'
#!/usr/bin/env -S sh -e
echo "script $(id -g)"
END
ENV X=3
COPY --chown=app <<EOF <<"raw" ./
x=$X "kept"
EOF
$X
raw
ADD a.tar plain.gz /opt/
RUN cat EOF raw /opt/top/unpacked && ls /opt && stat -c 'owner %U' EOF
CMD ["a"]
ENTRYPOINT ["echo", "entry"]
`)
		if err != nil {
			v.T.Fatalf("%v\n%s", err, log)
		}
		for _, want := range []string{"step 1500 1500 1600 /srv/app /srv/app\n", "script 1600\n", "x=3 \"kept\"\n", "$X\n", "text", "plain.gz\n", "top\n", "owner app\n"} {
			if !strings.Contains(log, want) {
				v.T.Errorf("the log lacks %q: %s", want, log)
			}
		}
		command := func(s api.Snapshot) string {
			if s.Defaults == nil {
				return ""
			}
			return strings.Join(s.Defaults.Command, " ")
		}
		if got := command(s); got != "echo entry a" {
			v.T.Errorf("the command is %q", got)
		}
		for _, c := range []struct{ file, want string }{
			{"FROM app\nRUN true\nCMD [\"b\"]", "echo entry b"},
			{"FROM app\nRUN true\nCMD [\"c\"]", "echo entry c"}, // RUN is cached
			{"FROM app AS one\nRUN true\nFROM one\nCMD d", "echo entry /bin/sh -c d"},
			{"FROM app\nENTRYPOINT [\"e\"]", "e"},
		} {
			s, log, err := build("next", c.file)
			if got := command(s); err != nil || got != c.want {
				v.T.Errorf("%q: the command is %q, want %q; %v %s", c.file, got, c.want, err, log)
			}
		}

		var problem *api.Error
		if _, _, err := build("denied", "FROM host\nRUN curl -sS https://denied.example:8443/"); !errors.As(err, &problem) || !strings.Contains(problem.Hint, "--egress denied.example") {
			v.T.Errorf("a step that was denied a connection: %v, %+v", err, problem)
		}
		s, err = v.Client.Templates.Build(v.T.Context(), api.BuildTemplate{Name: "short", Isolation: v.Isolation, Files: files,
			YAML: "from: app\nworkdir: /srv/app/in\ncopy: [a.tar]\nrun: ['test -O a.tar && pwd >at']\ncommand: [cat, at]\nlimits: {cpus: 0.5}"}, func(api.BuildLine) {})
		if err != nil || command(s) != "echo entry cat at" || s.Defaults.Dir != "/srv/app/in" || s.Limits.CPUs != 0.5 {
			v.T.Errorf("hortus.yaml: %+v %v", s, err)
		}

		// The user is that of sandboxes, and has no privileges of root.
		box := world.Sandbox(v.T, v.Client, api.CreateSandbox{Template: "app"})
		out, err := v.Sh(box, "id -u; id -g; grep CapEff /proc/self/status; cat /etc/shadow; touch /etc/x; kill -0 1; true")
		if err != nil || !strings.HasPrefix(out, "1500\n1600\nCapEff:\t0000000000000000\n") || strings.Contains(out, "root:") {
			v.T.Errorf("in a sandbox of the template: %s %v", out, err)
		}
		for name, want := range map[string]string{"toor": "is root by another name", "guest": "the guest of sandboxes", "nobody-here": "not in /etc/passwd"} {
			if _, _, err := build("refused", users+"USER "+name); err == nil || !strings.Contains(err.Error(), want) {
				v.T.Errorf("USER %s: %v, want %q", name, err, want)
			}
		}
	})
}
