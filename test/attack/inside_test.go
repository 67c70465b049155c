package attack

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestInside: programs of a sandbox find the guest at its port, as E2B's templates
// expect, and get nothing there but its health and the environment of the sandbox.
func TestInside(t *testing.T) {
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	onEachAtOnce(t, func(t *testing.T, w *world) {
		if atService(w.isolation) {
			w.needs(t, api.CapPrivateFiles) // the port is that of the service's own guest, which says what its template decides
		}
		sandbox := w.create(t, func(req *api.CreateSandbox) { req.Env = map[string]string{"GIVEN": "to the sandbox"} })
		r := w.exec(t, sandbox.ID, "user", "/usr/bin/python3", "-c", strings.ReplaceAll(insideProgram, "TIMEOUT", fmt.Sprint(int(patience/time.Second))))
		if r.exec.Exit.Code != 0 || r.stdout != "ok\n" {
			t.Errorf("%+v", r)
		}
		w.alive(t, sandbox.ID)
	})
}

const insideProgram = `
import http.client, json, socket
def ask(method, path, body=None, headers={}):
    c = http.client.HTTPConnection("127.0.0.1", 49983, timeout=TIMEOUT)
    c.request(method, path, body, headers)
    r = c.getresponse()
    return r.status, r.read()
# The control: what is served.
assert ask("GET", "/health")[0] == 204
status, body = ask("GET", "/envs", headers={"X-Access-Token": "None"})
assert status == 200 and json.loads(body) == {"GIVEN": "to the sandbox", "PIP_RETRIES": "0", "npm_config_fetch_retries": "0"}, (status, body)
# What acts or tells more is the host's alone.
for path in ("/process.Process/Start", "/process.Process/List", "/filesystem.Filesystem/Remove", "/filesystem.Filesystem/ListDir",
        "/files?path=/root", "/files/compose", "/metrics", "/init", "/hortus/port?port=22", "/hortus/trust"):
    for method in ("GET", "POST", "PUT"):
        status, body = ask(method, path, b"{}", {"Content-Type": "application/json", "Hortus-Version": "hortus.v1"})
        assert status == 404, (method, path, status, body)
# What is no request, or one without end, ends.
for data in (b"x" * 200000, b"GET /envs HTTP/1.1\r\n" + b"A: b\r\n" * 30000, b"\0\r\n\r\n", b"GET /envs HTTP/1.1\r\nContent-Length: -1\r\n\r\n"):
    s = socket.create_connection(("127.0.0.1", 49983), timeout=TIMEOUT)
    try:
        s.sendall(data)
        while s.recv(65536): pass
    except (BrokenPipeError, ConnectionResetError):
        pass
# Of many connections few are served, so that the host's clients have room.
held = [socket.create_connection(("127.0.0.1", 49983), timeout=TIMEOUT) for _ in range(300)]
served = 0
for s in held:
    try:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        served += s.recv(100).startswith(b"HTTP/1.1 204 ")
    except (BrokenPipeError, ConnectionResetError):
        pass
assert 0 < served <= 16, served
print("ok")
`
