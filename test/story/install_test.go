package story

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hortus.dev/api"
	"hortus.dev/api/admin"
	"hortus.dev/test/tier"
)

// registries are an npm registry, a Python package index and a Go module proxy on this machine,
// with a package each: hortus-pad, and example.org/hortuspad.
type registries struct {
	url, host string
	mux       *http.ServeMux
}

// npmPackage shows what its installation script saw of the program's directory.
var npmPackage = map[string]string{
	"package/package.json": `{"name":"hortus-pad","version":"1.0.0","main":"index.js","scripts":{"postinstall":"node look.js"}}`,
	"package/look.js":      `require("fs").writeFileSync(__dirname + "/seen.json", JSON.stringify(require("fs").readdirSync(process.env.INIT_CWD)));`,
	"package/index.js":     `module.exports = {pad: (s, n) => String(s).padStart(n, "0"), seen: require("./seen.json")};`,
}

func newRegistries(t *testing.T) *registries {
	t.Helper()
	r := &registries{}
	address := ownAddress(t)
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	r.host = l.Addr().String()
	r.url = "http://" + r.host
	mux := http.NewServeMux()
	r.mux = mux
	serve := func(path string, content []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Write(content)
		})
	}
	tarball := npmTarball(t)
	sum := sha512.Sum512(tarball)
	serve("/npm/hortus-pad", fmt.Appendf(nil, `{"name":"hortus-pad","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"hortus-pad","version":"1.0.0","scripts":{"postinstall":"node look.js"},`+
		`"hasInstallScript":true,"dist":{"tarball":"%s/npm/hortus-pad-1.0.0.tgz","integrity":"sha512-%s"}}}}`, r.url, base64.StdEncoding.EncodeToString(sum[:])))
	serve("/npm/hortus-pad-1.0.0.tgz", tarball)

	const wheel = "hortus_pad-1.0-py3-none-any.whl"
	content := zipped(t, map[string]string{
		"hortus_pad.py":                     "def pad(s, n):\n    return str(s).rjust(n, '0')\n",
		"hortus_pad-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hortus-pad\nVersion: 1.0\n",
		"hortus_pad-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hortus_pad-1.0.dist-info/RECORD":   "hortus_pad.py,,\nhortus_pad-1.0.dist-info/METADATA,,\nhortus_pad-1.0.dist-info/WHEEL,,\nhortus_pad-1.0.dist-info/RECORD,,\n",
	})
	digest := sha256.Sum256(content)
	mux.HandleFunc("GET /simple/hortus-pad/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<a href="/files/%s#sha256=%s">%s</a>`, wheel, hex.EncodeToString(digest[:]), wheel)
	})
	serve("/files/"+wheel, content)

	const module, mod = "example.org/hortuspad", "module example.org/hortuspad\n\ngo 1.21\n"
	versions := "/go/" + module + "/@v/"
	serve(versions+"list", []byte("v1.0.0\n"))
	serve(versions+"v1.0.0.info", []byte(`{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}`))
	serve(versions+"v1.0.0.mod", []byte(mod))
	serve(versions+"v1.0.0.zip", zipped(t, map[string]string{
		module + "@v1.0.0/go.mod": mod,
		module + "@v1.0.0/pad.go": "package hortuspad\n\nfunc Pad(s string, n int) string {\n\tfor len(s) < n {\n\t\ts = \"0\" + s\n\t}\n\treturn s\n}\n",
	}))
	srv := httptest.NewUnstartedServer(mux)
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	return r
}

// npm serves an archive of hortus-pad for a lock file that names it.
func (r *registries) npm(t *testing.T, tarball []byte) {
	t.Helper()
	r.mux.HandleFunc("GET /npm/lock/hortus-pad-1.0.0.tgz", func(w http.ResponseWriter, _ *http.Request) { w.Write(tarball) })
}

// configure has the tools of the daemon's machine use the registries.
func (r *registries) configure(g *garden) {
	g.env = append(g.env, "npm_config_registry="+r.url+"/npm/", "PIP_INDEX_URL="+r.url+"/simple/", "PIP_TRUSTED_HOST="+r.host,
		"GOPROXY="+r.url+"/go", "GOSUMDB=off")
}

// ownAddress returns an address of this machine that is not its loopback, which sandboxes never
// reach.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address besides its loopback")
	return ""
}

func npmTarball(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range npmPackage {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// installing are programs that need a package that is not in the sandbox. URL is the registry:
// each program reports whether it can connect to it.
var installing = []struct{ name, needs, tag, program, want string }{
	{"JavaScript", "npm", "js", `const {pad, seen} = require("hortus-pad");
const fs = require("fs"), http = require("http");
console.log(pad(7, 3), "seen by the installation:", seen.includes("data.csv"), "there:", fs.existsSync("data.csv"));
http.get("http://HOST:PORT/npm/hortus-pad", r => console.log("ANSWERED", r.statusCode)).on("error", () => console.log("denied"));`,
		"007 seen by the installation: false there: true\ndenied\n"},
	{"Python", "python3", "python", `import urllib.request
import hortus_pad
print(hortus_pad.pad(7, 3))
try:
    print("ANSWERED", urllib.request.urlopen("http://HOST:PORT/simple/hortus-pad/", timeout=20).status)
except OSError:
    print("denied")`, "007\ndenied\n"},
	{"Go", "go", "go", `package main

import (
	"os"

	"example.org/hortuspad"
)

// It imports little, because the compiler in the sandbox has no cache.
func main() { os.Stdout.WriteString(hortuspad.Pad("7", 3) + "\n") }`, "007\n"},
}

// TestInstall runs programs that import packages which are not there. The Debugger installs
// them, from registries that only the install command reaches.
func TestInstall(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	r := newRegistries(t)
	host, port, _ := net.SplitHostPort(r.host)
	data := filepath.Join(t.TempDir(), "data.csv")
	if err := os.WriteFile(data, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, isolation := range []string{"container", "gvisor"} {
		for _, c := range installing {
			if (isolation == "gvisor" || c.name != "Python") && !tier.Soaking() {
				continue // gvisor and npm are slower, and Go compiles for more than a minute; the phases are the same
			}
			t.Run(isolation+"/"+c.name, func(t *testing.T) {
				g := newGarden(t)
				r.configure(g)
				g.env = append(g.env, "HORTUS_POOL=0")
				g.opens(isolation, c.needs)
				program := strings.NewReplacer("HOST", host, "PORT", port).Replace(c.program)
				// A compiler without a cache, and a kernel of its own, take their time.
				run := g.outsideFor(5*patience, binary, "run", "--isolation", isolation, "--memory", "2G", "--disk", "2G", "--install-timeout", "5m", "--timeout", "2m",
					"--file", data, "Run this:\n```"+c.tag+"\n"+program+"\n```")
				if run.code != 0 || run.stdout != c.want || !strings.Contains(run.stderr, "verified") || !strings.Contains(run.stderr, "2 attempts") || !strings.Contains(run.stderr, "(install ") {
					t.Errorf("want\n%s\ngot %s", c.want, run)
				}
			})
		}
	}
}

// TestInstallDenied runs such a program without a way to a registry, or with a package that no
// registry has: the diagnosis names it, and what to do.
func TestInstallDenied(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	r := newRegistries(t)
	g := newGarden(t)
	r.configure(g)
	g.light()
	g.opens("container", "npm")
	for _, c := range []struct {
		name, program string
		flags, want   []string
	}{
		{"none", "```js\nrequire('hortus-pad')\n```", []string{"--setup-egress", "none"}, []string{"package hortus-pad could not be installed", "--setup-egress npm"}},
		{"no such package", "```js\nrequire('hortus-padd')\n```", nil, []string{"has no package hortus-padd"}},
		{"another registry", "```python\nimport hortus_pad\n```", []string{"--setup-egress", "npm"}, []string{"hortus-pad", "To allow it: --setup-egress "}},
		{"the run phase", "```python\nimport urllib.request\nurllib.request.urlopen('" + r.url + "/simple/')\n```", nil, []string{"To allow it: --egress " + r.host}},
	} {
		run := g.run(append(append([]string{"run", "--isolation", "container", "--memory", "2G"}, c.flags...), "Run this:\n"+c.program)...)
		for _, want := range c.want {
			if run.code != 1 || !strings.Contains(run.stderr, want) {
				t.Errorf("%s: %q is missing: %s", c.name, want, run)
			}
		}
	}
}

// keeper connects to the registry in the setup phase, and says when that connection ends.
const keeper = `import socket
state = "denied"
try:
    s = socket.create_connection(("HOST", PORT), 20)
    s.sendall(b"GET /simple/hortus-pad/ HTTP/1.1\r\nHost: HOST:PORT\r\n\r\n")
    if b"200 OK" in s.recv(4096):
        state = "open"
except OSError:
    pass
open("state", "w").write(state)
s.settimeout(None)
try:
    while s.recv(4096):
        pass
except OSError:
    pass
open("state", "w").write("ended")
`

// looker waits for that end, and connects by itself.
const looker = `import time, urllib.request
end = time.time() + 30
while open("state").read() != "ended" and time.time() < end:
    time.sleep(0.05)
print(open("state").read(), urllib.request.urlopen("http://HOST:PORT/simple/hortus-pad/", timeout=20).status)
`

// TestInstallConnections: a connection of the setup phase ends with it, also if the run phase
// allows the same one.
func TestInstallConnections(t *testing.T) {
	tier.AnyUser(t)
	t.Parallel()
	r := newRegistries(t)
	g := newGarden(t)
	g.light()
	g.opens("container", "python3")
	host, port, _ := net.SplitHostPort(r.host)
	fill := strings.NewReplacer("HOST", host, "PORT", port)
	artifact, err := json.Marshal(api.CodeArtifact{
		Language: api.Python, Run: "python3 main.py", Output: api.OutputText,
		Files:   []api.File{{Path: "main.py", Content: fill.Replace(looker)}, {Path: "hold.py", Content: fill.Replace(keeper)}},
		Install: "setsid python3 hold.py >/dev/null 2>&1 & while ! test -s state; do sleep 0.05; done; cat state >&2; grep -q open state",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ egress, setup, want string }{
		{r.host + ",private", r.host + ",private", "ended 200\n"},
		// The policy of the run phase does not count in the setup phase.
		{r.host + ",private", "none", ""},
	} {
		run := g.input(bytes.NewReader(artifact), "role", "execute", "--isolation", "container", "--egress", c.egress, "--setup-egress", c.setup, "-")
		if run.stdout != c.want || (run.code == 0) != (c.want != "") {
			t.Errorf("setup %s: want %q, got %s", c.setup, c.want, run)
		}
	}
}

// opens skips a test where sandboxes of a backend cannot connect to anything, or have no such
// program.
func (g *garden) opens(isolation, program string) {
	g.t.Helper()
	doctor := decode[admin.Doctor](g.t, g.must("doctor", "--json"))
	for _, b := range doctor.Backends {
		if b.Backend != isolation {
			continue
		}
		for _, c := range []api.Capability{api.CapStart, api.CapEgress} {
			if a, ok := b.Has(c); !ok {
				g.t.Skipf("%s has no %s here: %s", isolation, c, a.Reason)
			}
		}
		if r := g.run("sandbox", "run", "--isolation", isolation, "--", "sh", "-c", "command -v "+program); r.code != 0 {
			g.t.Skipf("sandboxes have no %s on this machine", program)
		}
		return
	}
	g.t.Skipf("this build does not include backend %s", isolation)
}
