package kubernetes

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"hortus.dev/internal/backend/kubernetes"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/test/tools"
)

const apiToken = "token-of-the-cluster"

// double answers as the API server of a cluster. A pod is a process in a mount and a process namespace.
type double struct {
	t      *testing.T
	server *httptest.Server
	file   string // the kubeconfig
	guest  string
	// open leaves out what a network plugin does: guests reach the API server.
	open bool
	// limits, unless it is nil, are the limits of memory and processors that control groups have instead of those of their pods.
	limits []string

	mu       sync.Mutex
	made     int
	pods     map[string]*fakePod
	policies map[string]map[string]any
	users    map[string]bool // uids of pods
	changed  chan struct{}
	// lie, unless it is nil, changes a pod in an answer.
	lie func(pod map[string]any)
}

type fakePod struct {
	object map[string]any
	phase  string
	exit   int
	cmd    *exec.Cmd
	ended  chan struct{}
}

func newDouble(t *testing.T) *double {
	d := &double{t: t, guest: tools.Program(t, "./cmd/hortus-guest"), pods: map[string]*fakePod{}, policies: map[string]map[string]any{}, users: map[string]bool{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v1/namespaces/sandboxes/pods", d.create)
	mux.HandleFunc("GET /api/v1/namespaces/sandboxes/pods", d.list)
	mux.HandleFunc("GET /api/v1/namespaces/sandboxes/pods/{name}", d.get)
	mux.HandleFunc("DELETE /api/v1/namespaces/sandboxes/pods/{name}", d.delete)
	mux.HandleFunc("PATCH /apis/networking.k8s.io/v1/namespaces/sandboxes/networkpolicies/{name}", d.apply)
	d.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+apiToken {
			http.Error(w, `{"kind":"Status","message":"Unauthorized","code":401}`, http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(d.server.Close)
	t.Cleanup(func() {
		for name := range d.pods {
			d.kill(name)
		}
	})
	dir := t.TempDir()
	d.file = filepath.Join(dir, "config")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	for name, text := range map[string]string{"ca.crt": string(ca), "token": apiToken + "\n", "config": fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: main, user: hortus}}]
clusters: [{name: main, cluster: {server: %q, certificate-authority: ca.crt}}]
users: [{name: hortus, user: {tokenFile: token}}]
`, d.server.URL)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *double) config() kubernetes.Config {
	return kubernetes.Config{Kubeconfig: d.file, Namespace: "sandboxes", Image: "sandbox", GuestImage: "guest", Listen: "127.0.0.1:0"}
}

// at returns what is at a path of an object.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return nil
			}
			v = list[p]
		}
	}
	return v
}

// restricted returns what of a pod the restricted profile of Pod Security does not allow, or what makes its guest slow or
// its memory endless.
func restricted(o map[string]any) (bad []string) {
	want := func(what string, got, want any) {
		if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
			bad = append(bad, fmt.Sprintf("%s: %s; want %s", what, g, w))
		}
	}
	want("service account", at(o, "spec", "automountServiceAccountToken"), false)
	want("root", at(o, "spec", "securityContext", "runAsNonRoot"), true)
	want("settings of its kernel", at(o, "spec", "securityContext", "sysctls"), []any{map[string]any{"name": "kernel.shm_rmid_forced", "value": "1"}})
	for _, kind := range []string{"initContainers", "containers"} {
		c := at(o, "spec", kind, 0)
		want(kind+": escalation", at(c, "securityContext", "allowPrivilegeEscalation"), false)
		want(kind+": capabilities", at(c, "securityContext", "capabilities", "drop"), []any{"ALL"})
		want(kind+": added", at(c, "securityContext", "capabilities", "add"), nil)
		want(kind+": seccomp", at(c, "securityContext", "seccompProfile", "type"), "RuntimeDefault")
		for _, r := range []string{"cpu", "memory"} {
			want(kind+": "+r, at(c, "resources", "requests", r), at(c, "resources", "limits", r))
		}
		for _, r := range []string{"cpu", "memory", "ephemeral-storage"} {
			want(kind+": limit of "+r, at(c, "resources", "limits", r) != nil, true)
		}
	}
	for _, forbidden := range []string{"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} {
		want(forbidden, at(o, "spec", forbidden), nil)
	}
	for _, v := range o["spec"].(map[string]any)["volumes"].([]any) {
		if at(v, "emptyDir") == nil {
			bad = append(bad, fmt.Sprintf("volume: %v", v))
		}
		if at(v, "name") == "guest" {
			want("medium of the guest's program", at(v, "emptyDir", "medium"), "Memory")
		}
	}
	return bad
}

// script is a pod's root: the programs of this host, and directories of its own.
const script = `set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cd "$1"
for d in usr etc dev; do mkdir $d; mount --rbind /$d $d; done
for l in bin sbin lib lib32 lib64 libx32; do if [ -L /$l ]; then ln -s usr/$l $l; elif [ -d /$l ]; then mkdir $l; mount --rbind /$l $l; fi; done
mkdir -p proc tmp workspace hortus home/user sys/fs/cgroup
if [ -n "$4" ]; then echo "$4" > sys/fs/cgroup/memory.max; fi
echo "oom_kill 0" > sys/fs/cgroup/memory.events
if [ -n "$5" ]; then echo "$5" > sys/fs/cgroup/cpu.max; fi
mount -t proc proc proc
cp "$2" hortus/hortus-guest
chmod 1777 tmp
if [ "$3" != none ]; then chown "$3:$3" workspace home/user; fi
if [ "$3" != none ]; then exec chroot . setpriv --reuid "$3" --regid "$3" --clear-groups --no-new-privs --bounding-set -all /hortus/hortus-guest dial; fi
exec chroot . /hortus/hortus-guest dial
`

func (d *double) create(w http.ResponseWriter, r *http.Request) {
	var o map[string]any
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if bad := restricted(o); len(bad) > 0 {
		d.t.Errorf("create: %q", bad)
		http.Error(w, "violates PodSecurity restricted:latest", http.StatusForbidden)
		return
	}
	name := at(o, "metadata", "name").(string)
	var dial birth.Dial
	if err := json.Unmarshal([]byte(at(o, "spec", "containers", 0, "env", 0, "value").(string)), &dial); err != nil {
		d.t.Error(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(dial.Denied) > 0 {
		owner := at(o, "metadata", "labels", "hortus-owner").(string)
		if p := d.policies["hortus-"+owner]; at(p, "spec", "podSelector", "matchLabels", "hortus-owner") != owner {
			d.t.Errorf("a pod before its network policy: %v", p)
		}
		if !d.open {
			dial.Denied = []string{"127.0.0.1:1"} // as a network plugin does
		}
	}
	if d.pods[name] != nil {
		http.Error(w, "exists", http.StatusConflict)
		return
	}
	d.made++
	o["metadata"].(map[string]any)["uid"] = fmt.Sprintf("uid-%d", d.made)
	p := &fakePod{object: o, phase: "Running", ended: make(chan struct{})}
	env, err := json.Marshal(dial)
	if err != nil {
		d.t.Error(err)
	}
	user := strconv.FormatFloat(at(o, "spec", "securityContext", "runAsUser").(float64), 'f', 0, 64)
	if d.users[user] {
		d.t.Errorf("two pods have the uid %s", user)
	}
	d.users[user] = true
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if os.Geteuid() != 0 {
		user = "none" // there is one
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	limits := d.limits
	if limits == nil {
		of := at(o, "spec", "containers", 0, "resources", "limits")
		limits = []string{at(of, "memory").(string), strings.TrimSuffix(at(of, "cpu").(string), "m") + "00 100000"}
	}
	p.cmd = exec.Command("sh", append([]string{"-c", script, "sh", d.t.TempDir(), d.guest, user}, limits...)...)
	p.cmd.SysProcAttr = attr
	p.cmd.Env = []string{birth.DialVariable + "=" + string(env), "HOME=/home/user", "PATH=" + os.Getenv("PATH")}
	log, err := os.Create(filepath.Join(d.t.TempDir(), "log"))
	if err != nil {
		d.t.Error(err)
	}
	defer log.Close()
	p.cmd.Stderr = log // a pipe would keep Wait until the last process ends
	if err := p.cmd.Start(); err != nil {
		d.t.Error(err)
	}
	d.pods[name] = p
	go func() {
		err := p.cmd.Wait()
		d.mu.Lock()
		p.phase = "Failed"
		if p.cmd.ProcessState.Success() {
			p.phase = "Succeeded"
		}
		if d.pods[name] == p && err != nil {
			text, _ := os.ReadFile(log.Name())
			d.t.Logf("pod %s: %v: %s", name, err, text)
		}
		d.signal()
		d.mu.Unlock()
		close(p.ended)
	}()
	d.signal()
	w.WriteHeader(http.StatusCreated)
	d.answer(w, p)
}

// signal wakes watches. The caller holds mu.
func (d *double) signal() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// view is a pod with its status.
func (d *double) view(p *fakePod) map[string]any {
	o := map[string]any{}
	for k, v := range p.object {
		o[k] = v
	}
	status := map[string]any{"phase": p.phase}
	if p.phase == "Failed" {
		status["containerStatuses"] = []any{map[string]any{"name": "sandbox", "state": map[string]any{"terminated": map[string]any{"exitCode": 1, "reason": "Error", "message": "it ended"}}}}
	}
	o["status"] = status
	if d.lie != nil {
		d.lie(o)
	}
	return o
}

func (d *double) answer(w http.ResponseWriter, p *fakePod) { _ = json.NewEncoder(w).Encode(d.view(p)) }

func (d *double) get(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.pods[r.PathValue("name")]
	if p == nil {
		http.Error(w, `{"kind":"Status","code":404}`, http.StatusNotFound)
		return
	}
	d.answer(w, p)
}

func (d *double) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("watch") == "true" {
		d.watch(w, r, strings.TrimPrefix(q.Get("fieldSelector"), "metadata.name="))
		return
	}
	_, owner, _ := strings.Cut(q.Get("labelSelector"), "=")
	d.mu.Lock()
	defer d.mu.Unlock()
	items := []any{}
	for _, p := range d.pods {
		if at(p.object, "metadata", "labels", "hortus-owner") == owner {
			items = append(items, d.view(p))
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "metadata": map[string]any{}, "items": items})
}

func (d *double) watch(w http.ResponseWriter, r *http.Request, name string) {
	last := ""
	for {
		d.mu.Lock()
		event, changed := map[string]any{"type": "MODIFIED"}, d.changed
		if p := d.pods[name]; p != nil {
			event["object"] = d.view(p)
		} else {
			event["type"], event["object"] = "DELETED", map[string]any{}
		}
		d.mu.Unlock()
		text, _ := json.Marshal(event)
		if string(text) != last {
			fmt.Fprintf(w, "%s\n", text)
			_ = http.NewResponseController(w).Flush()
			last = string(text)
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (d *double) delete(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || fmt.Sprint(in["gracePeriodSeconds"]) != "1" {
		d.t.Errorf("delete: %v, %v", in, err)
	}
	name := r.PathValue("name")
	d.mu.Lock()
	p := d.pods[name]
	d.mu.Unlock()
	if p == nil {
		http.Error(w, `{"kind":"Status","code":404}`, http.StatusNotFound)
		return
	}
	if uid := at(in, "preconditions", "uid"); uid != nil && uid != at(p.object, "metadata", "uid") {
		http.Error(w, `{"kind":"Status","code":409}`, http.StatusConflict)
		return
	}
	d.kill(name)
	d.answer(w, p)
}

// kill ends a pod. Its processes have ended before the API server forgets it.
func (d *double) kill(name string) {
	d.mu.Lock()
	p := d.pods[name]
	d.mu.Unlock()
	p.cmd.Process.Kill()
	<-p.ended
	d.mu.Lock()
	delete(d.pods, name)
	d.signal()
	d.mu.Unlock()
}

func (d *double) apply(w http.ResponseWriter, r *http.Request) {
	var o map[string]any
	err := json.NewDecoder(r.Body).Decode(&o)
	if err != nil || r.Header.Get("Content-Type") != "application/apply-patch+yaml" || r.URL.Query().Get("fieldManager") == "" || at(o, "metadata", "name") != r.PathValue("name") ||
		fmt.Sprint(at(o, "spec", "policyTypes")) != "[Ingress Egress]" || at(o, "spec", "ingress") != nil || at(o, "spec", "egress", 1) != nil {
		d.t.Errorf("network policy: %v, %v", o, err)
	}
	d.mu.Lock()
	d.policies[r.PathValue("name")] = o
	d.mu.Unlock()
	_ = json.NewEncoder(w).Encode(o)
}
