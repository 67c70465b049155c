package attack

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
)

// TestSudo: who becomes root by sudo has what a client of the API has who asks for root,
// and no more.
func TestSudo(t *testing.T) {
	onEachAtOnce(t, func(t *testing.T, w *world) {
		if w.guestIsUser() || w.isolation == "kubernetes" {
			w.needs(t, api.CapRootIdentity) // sudo is the template's there, and gives what the service gives
		}
		sandbox := w.create(t, nil)
		if !slices.Contains(sandbox.Identities, "root") {
			// The control of a sandbox without root: sudo says so, and gives nothing.
			r := w.exec(t, sandbox.ID, "user", "sudo", "sh", "-c", "id -u; grep Cap /proc/self/status")
			if want := w.exec(t, sandbox.ID, "user", "sh", "-c", "id -u; grep Cap /proc/self/status"); r.stdout != want.stdout || !strings.Contains(r.stderr, "no root") {
				t.Errorf("without root: %q, want %q; %q", r.stdout, want.stdout, r.stderr)
			}
			return
		}
		t.Run("rights", func(t *testing.T) {
			// The same process as root, by both ways: ids, capabilities, filters, limits, root.
			const look = `grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp)' /proc/self/status; ulimit -a; cat /proc/self/mountinfo | wc -l
				ls -di /; readlink /proc/self/ns/user; ls -l /proc/1/exe 2>&1; cat /proc/1/environ 2>&1; echo $PATH $HOME`
			asked, sudone := w.exec(t, sandbox.ID, "root", "sh", "-c", look), w.exec(t, sandbox.ID, "user", "sudo", "sh", "-c", look)
			if asked.stdout != sudone.stdout || !strings.Contains(asked.stdout, "Uid:\t0") {
				t.Errorf("sudo gives\n%s%s\nroot has\n%s", sudone.stdout, sudone.stderr, asked.stdout)
			}
			if own := w.exec(t, sandbox.ID, "user", "sh", "-c", look); own.stdout == asked.stdout {
				t.Error("control: user has the same without sudo")
			}
		})
		t.Run("others", func(t *testing.T) {
			if _, err := exec.LookPath("setpriv"); err != nil {
				t.Skip("setpriv is not installed")
			}
			const become = "setpriv --reuid %d --regid 1000 --clear-groups sudo id -u"
			if r := w.exec(t, sandbox.ID, "user", "sudo", "sh", "-c", fmt.Sprintf(become, 4242)); r.exec.Exit.Code != 1 || !strings.Contains(r.stderr, "may not use sudo") {
				t.Errorf("a user whom the sandbox does not know: %+v", r)
			}
		})
		t.Run("clients", func(t *testing.T) {
			if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
				t.Skip("python3 is not installed")
			}
			r := w.exec(t, sandbox.ID, "user", "/usr/bin/python3", "-c", hostileSudo)
			if r.exec.Exit.Code != 0 || r.stdout != "ok\n" {
				t.Errorf("hostile clients: %+v", r)
			}
			if r := w.exec(t, sandbox.ID, "user", "sudo", "id", "-u"); r.stdout != "0\n" {
				t.Errorf("after hostile clients: %+v", r)
			}
		})
		t.Run("bytes", func(t *testing.T) {
			// A name that is not UTF-8 stays what it is, for arguments, the directory and variables:
			// the replaced one is another file's. The control is sh without sudo.
			const script = `cd /tmp; d=$(printf 'd\377'); mkdir "$d"; cd "$d"
				mine=$(printf 'a\377') other=$(printf 'a\357\277\275')
				for do in "" sudo; do
					touch "$mine" "$other"; export LC_NAME="$mine"
					$do rm "$mine"; ls | od -An -tx1; $do sh -c 'pwd; printf %s "$LC_NAME"' | od -An -tx1
				done`
			if r := w.exec(t, sandbox.ID, "user", "bash", "-c", script); r.stdout != strings.Repeat(" 61 ef bf bd 0a\n 2f 74 6d 70 2f 64 ff 0a 61 ff\n", 2) {
				t.Errorf("%+v", r)
			}
		})
		t.Run("end", func(t *testing.T) {
			// Killed with the one who asked for it; the control continues.
			const script = `sudo sh -c 'echo $$ >/tmp/kept; exec sleep 1000' & kept=$!; sudo sh -c 'echo $$ >/tmp/pid; exec sleep 1000' & p=$!
				until [ -s /tmp/pid ] && [ -s /tmp/kept ]; do sleep 0.05; done
				kill -9 $p; while sudo test -d /proc/$(cat /tmp/pid); do sleep 0.05; done
				sudo test -d /proc/$(cat /tmp/kept) && echo kept; kill $kept; wait $kept; echo $?`
			if r := w.exec(t, sandbox.ID, "user", "bash", "-c", script); r.stdout != "kept\n143\n" {
				t.Errorf("%+v", r)
			}
		})
		w.alive(t, sandbox.ID)
	})
}

// hostileSudo speaks to the guest's socket as no honest sudo does. Every connection must
// end, with an answer or without, and none may cost the guest a descriptor for good.
var hostileSudo = strings.ReplaceAll(`
import array, base64, json, os, socket, struct
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(TIMEOUT)
    s.connect("\0hortus/sudo")
    return s
def text(v):
    if isinstance(v, list): return [text(x) for x in v]
    return base64.b64encode(v.encode()).decode()
def message(**request):
    b = json.dumps({k: text(v) for k, v in request.items()}).encode()
    return struct.pack(">I", len(b)) + b
def rights(n):
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1] * n))]
def refused(data, fds=0, says=None):
    s = connect()
    try:
        s.sendmsg([data], rights(fds) if fds else [])
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            b = s.recv(65536)
            if not b: break
            answer += b
    except (BrokenPipeError, ConnectionResetError):
        return
    code = json.loads(answer[4:] or b"{}")
    assert code.get("error"), (data[:80], fds, answer)
    assert says is None or says in code["error"], (says, answer)
good = dict(args=["id"], dir="/")
for round in range(40):
    refused(b"")
    refused(b"\xff\xff\xff\xff" + b"x" * 100, says="too long")
    refused(struct.pack(">I", 10) + b"{", 3)
    refused(struct.pack(">I", 3) + b"{]}", 3)
    refused(message(**good), 0, "0 file descriptors")
    refused(message(**good), 1, "1 file descriptors")
    refused(message(**good), 200)
    refused(message(user="nobody", **good), 3, "not found")
    refused(message(user="hortus", **good), 3, "not found")
    refused(message(args=[], dir="/"), 3, "no command")
    refused(message(args=["a\0b"], dir="/"), 3, "NUL")
    refused(message(args=["id"], dir="/nonexistent"), 3, "does not exist")
    refused(message(args=["id"], dir="/", env=["A"]), 3, "no value")
    refused(message(args=["id"], dir="/", env=["=x"]), 3, "not allowed")
    refused(message(args=["id"], dir="/", env=["A=x\0B=y"]), 3)
# Many that say nothing keep nobody else out for long.
idle = [connect() for _ in range(100)]
for s in idle: s.close()
print("ok")
`, "TIMEOUT", fmt.Sprint(int(patience/time.Second)))
