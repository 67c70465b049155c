package kubernetes

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
)

// cluster answers as an API server whose pods do not run.
type cluster struct {
	status  int    // of the answer to a create; 0 is success
	refusal string // its body
	states  []object
	gone    bool
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	send := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	pod := func(status object) object {
		o := object{"metadata": object{"name": "hortus-" + id, "uid": "u1"}, "status": status}
		if status["deleted"] == true {
			o["metadata"].(object)["deletionTimestamp"] = "2026-11-30T12:00:00Z"
		}
		return o
	}
	switch {
	case r.Method == http.MethodPost && c.status != 0:
		w.WriteHeader(c.status)
		fmt.Fprint(w, c.refusal)
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated)
		send(pod(object{"phase": "Pending"}))
	case r.URL.Query().Get("watch") != "":
		for _, s := range c.states {
			send(object{"type": "MODIFIED", "object": pod(s)})
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	case c.gone:
		w.WriteHeader(http.StatusNotFound)
		send(object{"kind": "Status", "message": `pods "hortus-x" not found`})
	default:
		send(pod(c.states[len(c.states)-1]))
	}
}

const id = "i0000000000000000001"

// service returns the service of a cluster.
func (c *cluster) service(t *testing.T) *Service {
	t.Helper()
	server := httptest.NewTLSServer(c)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, text := range map[string]string{"ca.crt": string(ca), "config": fmt.Sprintf(`current-context: main
contexts: [{name: main, context: {cluster: main, user: me}}]
clusters: [{name: main, cluster: {server: %q, certificate-authority: ca.crt}}]
users: [{name: me, user: {token: secret}}]
`, server.URL)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{
		Kubeconfig: filepath.Join(dir, "config"), Namespace: "sandboxes", Image: "registry.example.org/sandbox:1", GuestImage: "guest:1",
		GuestURL: "https://127.0.0.1:7443", Listen: "127.0.0.1:0", Dir: filepath.Join(dir, "run"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func request() remote.Request {
	return remote.Request{Labels: map[string]string{remote.LabelSandbox: id, remote.LabelOwner: "o"}, Internet: true, Lease: remote.Lease, Limits: api.DefaultLimits()}
}

// TestRefusals: an error has the message of the cluster's answer, and says what to do.
func TestRefusals(t *testing.T) {
	refusal := func(message string) string {
		text, _ := json.Marshal(object{"kind": "Status", "status": "Failure", "message": message, "details": object{"name": strings.Repeat("x", 1000)}})
		return string(text)
	}
	for name, c := range map[string]struct {
		status     int
		answer     string
		kind       api.Kind
		text, hint string
	}{
		"a quota": {403, refusal(`pods "hortus-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`), api.KindExhausted,
			`kubernetes: create a pod: pods "hortus-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`, "raise its ResourceQuota"},
		"no runtime class": {403, refusal(`pods "hortus-x" is forbidden: pod rejected: RuntimeClass "none" not found`), api.KindUnisolated, `RuntimeClass "none" not found`, "kubernetes.runtime-class"},
		"no permission": {403, refusal(`pods is forbidden: User "system:serviceaccount:a:b" cannot create resource "pods" in API group "" in the namespace "sandboxes"`), api.KindUnisolated,
			`cannot create resource "pods"`, "needs a Role in namespace sandboxes"},
		"a webhook":         {403, refusal(`admission webhook "w" denied the request: it cannot be`), api.KindUnisolated, "denied the request: it cannot be", "an admission rule"},
		"a limit range":     {403, refusal(`pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`), api.KindInvalid, "but limit is 2Gi", "LimitRange of namespace sandboxes"},
		"pod security":      {403, refusal(`pods "x" is forbidden: violates PodSecurity "restricted:latest": x`), api.KindUnisolated, "violates PodSecurity", "restricted profile"},
		"no namespace":      {404, refusal(`namespaces "sandboxes" not found`), api.KindUnisolated, `create a pod: namespaces "sandboxes" not found`, "kubernetes.namespace"},
		"no login":          {401, refusal("Unauthorized"), api.KindUnisolated, "create a pod: Unauthorized", "ServiceAccount"},
		"an invalid pod":    {422, refusal("Pod \"x\" is invalid: spec:\n\tInvalid value"), api.KindInvalid, `Pod "x" is invalid: spec: Invalid value`, "kubernetes.*"},
		"an overload":       {429, refusal("too many requests"), api.KindExhausted, "too many requests", "try again"},
		"a failure":         {500, refusal("etcdserver: request timed out"), api.KindUnavailable, "etcdserver: request timed out", ""},
		"no JSON":           {502, "<html>\x1b[31m", api.KindUnavailable, `unexpected status 502: "<html>\x1b[31m"`, ""},
		"no text":           {502, `{"message": ["a"]}`, api.KindUnavailable, "unexpected status 502", ""},
		"a terminal's code": {500, refusal("a\x1b[31mb"), api.KindUnavailable, "create a pod: a [31mb", ""},
		"a long one":        {422, refusal(strings.Repeat("words ", 200)), api.KindInvalid, "words words ...", "kubernetes.*"},
	} {
		s := (&cluster{status: c.status, refusal: c.answer}).service(t)
		_, err := s.Create(t.Context(), request())
		if err == nil || api.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) || !strings.Contains(api.HintOf(err), c.hint) || (c.hint == "") != (api.HintOf(err) == "") || len(err.Error()) > 700 {
			t.Errorf("%s: %s, %v, next: %s", name, api.KindOf(err), err, api.HintOf(err))
		}
	}
}

// waiting is the status of a pod whose container waits.
func waiting(container, reason, message string) object {
	kind := "containerStatuses"
	if container == guestContainer {
		kind = "initContainerStatuses"
	}
	return object{"phase": "Pending", kind: []object{{"name": container, "state": object{"waiting": object{"reason": reason, "message": message}}}}}
}

// TestBootFails: a pod that does not start says why, what to do, and for what it waits.
func TestBootFails(t *testing.T) {
	const full = `0/1 nodes are available: 1 Insufficient cpu. preemption: "none"`
	unscheduled := func(message string) object {
		return object{"phase": "Pending", "conditions": []object{{"type": "PodScheduled", "status": "False", "message": message}}}
	}
	for name, c := range map[string]struct {
		states           []object
		late             bool // it fails at the deadline
		text, hint, wait string
	}{
		"no guest":  {[]object{{"phase": "Pending"}, {"phase": "Running"}}, true, "runs, but its guest has not reached https://127.0.0.1:7443 in ", "NetworkPolicy", ""},
		"full":      {[]object{unscheduled(full), unscheduled(full + " ")}, true, ": no node takes it: " + full, "end other pods", "waits for processors: pod hortus-" + id + ": no node takes it: " + full},
		"a taint":   {[]object{unscheduled("1 node(s) had untolerated taint")}, true, "no node takes it: 1 node(s) had", "end other pods", ""},
		"slow":      {[]object{waiting(sandboxContainer, "ContainerCreating", "")}, true, "its container sandbox waits (ContainerCreating)", "get events --field-selector involvedObject.name=hortus-" + id, ""},
		"no answer": {nil, true, "has not started in ", "", ""},
		"a missing image": {[]object{waiting(sandboxContainer, "ErrImagePull", `rpc error: failed to resolve reference "a/b:1": a/b:1: not found`)}, false,
			`(ErrImagePull): rpc error: failed to resolve reference "a/b:1": a/b:1: not found`, "check kubernetes.image, which is registry.example.org/sandbox:1", ""},
		"no registry": {[]object{waiting(guestContainer, "ErrImagePull", "i/o timeout"), waiting(guestContainer, "ImagePullBackOff", "Back-off")}, false,
			"(ImagePullBackOff): Back-off; before, its container guest waits (ErrImagePull): i/o timeout", "check kubernetes.guest-image, which is guest:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := (&cluster{states: c.states}).service(t)
			box, err := s.Create(t.Context(), request())
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			for within := time.Second; ; within *= 4 { // a slow machine sees nothing of the pod within a second
				if !c.late {
					within = time.Minute
				}
				told = nil
				ctx, cancel := context.WithTimeout(t.Context(), within)
				err = s.Boot(api.WithWaitTold(ctx, func(e api.WaitingEvent) { told = append(told, e.Words()) }), box, remote.Guest{Config: []byte("{}")})
				cancel()
				if within > 20*time.Second || err != nil && strings.Contains(err.Error(), c.text) {
					break
				}
			}
			kind := api.KindUnavailable
			if c.late {
				kind = api.KindTimeout
			}
			if err == nil || api.KindOf(err) != kind || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "deadline exceeded") || !strings.Contains(api.HintOf(err), c.hint) {
				t.Errorf("%s, %v, next: %s", api.KindOf(err), err, api.HintOf(err))
			}
			if got := strings.Join(told, "\n"); got != c.wait {
				t.Errorf("told %q; want %q", got, c.wait)
			}
		})
	}
}

// TestExplain: what is said of a pod that has ended.
func TestExplain(t *testing.T) {
	ended := object{"name": sandboxContainer, "state": object{"terminated": object{"exitCode": 143, "reason": "Error"}}}
	for name, c := range map[string]struct {
		status object
		gone   bool
		want   string
	}{
		"gone":      {nil, true, "its pod was deleted"},
		"deleted":   {object{"phase": "Failed", "deleted": true, "containerStatuses": []object{ended}}, false, "its pod was deleted"},
		"ended":     {object{"phase": "Failed", "containerStatuses": []object{ended}}, false, "its container sandbox has ended with exit code 143 (Error): "},
		"evicted":   {object{"phase": "Failed", "reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds"}, false, "it has ended (Evicted): Pod ephemeral local storage usage exceeds"},
		"drained":   {object{"phase": "Running", "deleted": true, "conditions": []object{{"type": "DisruptionTarget", "status": "True", "message": "Eviction API: evicting"}}}, false, "its pod was evicted: Eviction API: evicting"},
		"by memory": {object{"phase": "Failed", "containerStatuses": []object{{"name": sandboxContainer, "state": object{"terminated": object{"exitCode": 137, "reason": "OOMKilled"}}}}}, false, api.CauseMemory},
	} {
		s := (&cluster{states: []object{c.status}, gone: c.gone}).service(t)
		if got := s.Explain(t.Context(), remote.Box{ID: "hortus-" + id, Access: map[string]string{accessUID: "u1"}}); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
