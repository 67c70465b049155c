package kubernetes

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"hortus.dev/api"
	"hortus.dev/internal/backend/remote"
	"hortus.dev/internal/guest/birth"
)

// labelManaged marks what this package creates, for people.
const labelManaged = "app.kubernetes.io/managed-by"

// guestDir is where the guest's program is in a pod.
const guestDir = "/hortus"

// home is the home directory of a sandbox's user.
const home = "/home/user"

// guestMemory is what the guest and its program need besides the memory of its commands, and guestDisk what a pod needs
// besides their files, in bytes.
const (
	guestMemory = 64 << 20
	guestDisk   = 64 << 20
)

// object is JSON that is sent.
type object = map[string]any

// pod is what is read of a pod.
type pod struct {
	Metadata struct {
		Name     string            `json:"name"`
		UID      string            `json:"uid"`
		Labels   map[string]string `json:"labels"`
		Deletion string            `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Overhead map[string]string `json:"overhead"` // of its RuntimeClass
	} `json:"spec"`
	Status struct {
		Phase      string `json:"phase"`
		Reason     string `json:"reason"`
		Message    string `json:"message"`
		Conditions []struct {
			Type    string `json:"type"`
			Status  string `json:"status"`
			Message string `json:"message"`
		} `json:"conditions"`
		Init       []container `json:"initContainerStatuses"`
		Containers []container `json:"containerStatuses"`
	} `json:"status"`
}

// container is the state of a container of a pod.
type container struct {
	Name  string `json:"name"`
	State struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
		Terminated *struct {
			ExitCode int    `json:"exitCode"`
			Reason   string `json:"reason"`
			Message  string `json:"message"`
		} `json:"terminated"`
	} `json:"state"`
}

// name is the name of the pod of a sandbox.
func name(id api.SandboxID) string { return "hortus-" + string(id) }

// state is the state of a pod that exists.
func (p *pod) state() remote.State {
	switch {
	case p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed":
		return remote.Ended
	case p.Status.Phase == "Running" && p.Metadata.Deletion == "":
		return remote.Running
	}
	return remote.Other
}

// trouble is why a pod does not start.
type trouble struct {
	why   string // "" for none that is known
	hint  string
	final bool // it never will
	// lacks is what no node has enough of: "" if a node takes the pod, or refuses it for something else.
	lacks api.WaitCause
}

// trouble returns why a pod does not start, or has ended.
func (s *Service) trouble(p *pod) (t trouble) {
	t.hint = "its events say more: kubectl -n " + s.cfg.Namespace + " get events --field-selector involvedObject.name=" + p.Metadata.Name
	if p.state() == remote.Ended && p.Status.Reason != "" { // such as an eviction
		t.why, t.final = fmt.Sprintf("it has ended (%s): %s", p.Status.Reason, remote.Plain(p.Status.Message)), true
		return t
	}
	for _, c := range append(p.Status.Init, p.Status.Containers...) {
		if e := c.State.Terminated; e != nil && (e.ExitCode != 0 || c.Name == sandboxContainer) {
			t.why, t.final = fmt.Sprintf("its container %s has ended with exit code %d (%s): %s", c.Name, e.ExitCode, e.Reason, remote.Plain(e.Message)), true
			if e.Reason == "OOMKilled" {
				t.why = api.CauseMemory + ": " + t.why
			}
			return t
		}
		w := c.State.Waiting
		if w == nil {
			continue
		}
		text := remote.Plain(w.Message)
		switch w.Reason {
		case "ErrImagePull": // the kubelet tries again, unless the registry has said why not
			t.final = slices.ContainsFunc([]string{"not found", "denied", "unauthorized", "authentication"}, func(no string) bool { return strings.Contains(text, no) })
			t.hint = s.imageHint(c.Name)
		case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			t.final, t.hint = true, s.imageHint(c.Name)
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			t.final = true
		}
		t.why = strings.TrimSuffix(fmt.Sprintf("its container %s waits (%s): %s", c.Name, w.Reason, text), ": ")
		if t.final {
			return t
		}
	}
	if p.state() == remote.Ended {
		t.why, t.final = fmt.Sprintf("it has ended (%s): %s", p.Status.Phase, remote.Plain(p.Status.Message)), true
		return t
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			t.why, t.hint = "no node takes it: "+remote.Plain(c.Message), "end other pods, add a node, or ask for fewer processors and less memory; kubernetes.cpu-overcommit lets pods request fewer processors"
			for _, l := range lacking {
				if strings.Contains(c.Message, l.says) {
					t.lacks = l.cause
				}
			}
		}
	}
	return t
}

// lacking are the words of the scheduler for what nodes have too little of.
var lacking = []struct {
	says  string
	cause api.WaitCause
}{
	{"Too many pods", api.WaitSandboxes}, {"Insufficient ephemeral-storage", api.WaitDisk}, {"Insufficient memory", api.WaitMemory}, {"Insufficient cpu", api.WaitCPUs},
}

// imageHint says what to do about the image of a container.
func (s *Service) imageHint(container string) string {
	setting, image := "image", s.cfg.Image
	if container == guestContainer {
		setting, image = "guest-image", s.cfg.GuestImage
	}
	return fmt.Sprintf("check kubernetes.%s, which is %s, and that nodes can reach its registry; for a private one, add a pull secret to the imagePullSecrets of ServiceAccount default in namespace %s", setting, image, s.cfg.Namespace)
}

// The containers of a pod.
const (
	guestContainer   = "guest"
	sandboxContainer = "sandbox"
)

// ownUID is a random uid. The kernel of a node counts processes, signals, timers and inotify instances for each uid, so
// that pods with one uid could use up each other's.
func ownUID() uint32 {
	const first, bits = 1 << 20, 30 // above those of people and of ranges for containers, and below 1<<31, the maximum of the API
	var b [4]byte
	rand.Read(b[:])
	return first + binary.NativeEndian.Uint32(b[:])>>(32-bits)
}

// thousandths is a share of the processors as the API has it.
func thousandths(cpus float64) int64 { return int64(cpus * 1000) }

// limits are what the control group of a created pod has to have: its runtime may need the overhead of a RuntimeClass.
func (p *pod) limits(l api.Limits) bounds {
	const least, rounding = 10, 10 // of the kubelet, and of systemd
	return bounds{
		memory: l.MemoryBytes + guestMemory + int64(quantity(p.Spec.Overhead["memory"])),
		cpu:    max(thousandths(l.CPUs), least) + rounding + thousandths(quantity(p.Spec.Overhead["cpu"])),
	}
}

// units are those of quantities.
var units = map[string]float64{"": 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}

// quantity reads a number of the API, such as 64Mi or 250m. Any other text is 0.
func quantity(text string) float64 {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789."))
	n, err := strconv.ParseFloat(text[:digits], 64)
	if err != nil {
		return 0
	}
	return n * units[text[digits:]]
}

// podOf describes the pod of a sandbox, for the restricted profile of Pod Security.
func (s *Service) podOf(id api.SandboxID, r remote.Request, d birth.Dial) (object, error) {
	start, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	of := func(cpus float64, disk int64) object {
		return object{"memory": strconv.FormatInt(r.Limits.MemoryBytes+guestMemory, 10), "cpu": strconv.FormatInt(thousandths(cpus), 10) + "m", "ephemeral-storage": strconv.FormatInt(disk, 10)}
	}
	// A pod with more files than its limit is evicted. Most have few, so that little is requested.
	disk := r.Limits.DiskBytes + guestDisk
	limits := object{"requests": of(r.Limits.CPUs/s.cfg.CPUOvercommit, guestDisk), "limits": of(r.Limits.CPUs, disk)}
	secure := object{
		"allowPrivilegeEscalation": false, "capabilities": object{"drop": []string{"ALL"}}, "runAsNonRoot": true, "privileged": false,
		"seccompProfile": object{"type": "RuntimeDefault"},
	}
	mount := func(name, at, below string) object {
		return object{"name": name, "mountPath": at, "subPath": below}
	}
	program := path.Join(guestDir, "hortus-guest")
	uid := ownUID()
	spec := object{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
		"terminationGracePeriodSeconds": 1, "hostname": "sandbox",
		"securityContext": object{
			"runAsNonRoot": true, "runAsUser": uid, "runAsGroup": uid,
			"seccompProfile": object{"type": "RuntimeDefault"},
			// Memory of System V ends with the last process that has it attached. Otherwise it would stay when its
			// processes were killed for it, and a pod without free memory has a guest that no longer answers.
			"sysctls": []object{{"name": "kernel.shm_rmid_forced", "value": "1"}},
		},
		"initContainers": []object{{
			"name": guestContainer, "image": s.cfg.GuestImage, "command": []string{"/hortus-guest", birth.ArgCopy, program, "/files/workspace", "/files/tmp", "/files/home"},
			"volumeMounts": []object{mount("guest", guestDir, ""), mount("files", "/files", "")}, "securityContext": secure, "resources": limits,
			"terminationMessagePolicy": "FallbackToLogsOnError",
		}},
		"containers": []object{{
			"name": sandboxContainer, "image": s.cfg.Image, "command": []string{program, birth.ArgDial},
			"env": []object{{"name": birth.DialVariable, "value": string(start)}, {"name": "HOME", "value": home}},
			"volumeMounts": []object{
				{"name": "guest", "mountPath": guestDir, "readOnly": true},
				mount("files", "/workspace", "workspace"), mount("files", "/tmp", "tmp"), mount("files", home, "home"),
			},
			"workingDir": "/workspace", "securityContext": secure, "resources": limits,
			"terminationMessagePolicy": "FallbackToLogsOnError",
		}},
		"volumes": []object{
			// In memory, from which a pod without swap loses nothing: from a disk, a guest whose commands take all memory would
			// read its own program again with each step, and be too slow to end them.
			{"name": "guest", "emptyDir": object{"medium": "Memory", "sizeLimit": strconv.Itoa(guestDisk)}},
			{"name": "files", "emptyDir": object{"sizeLimit": strconv.FormatInt(disk, 10)}}, // subdirectories, so that they belong to the user
		},
	}
	if s.cfg.RuntimeClass != "" {
		spec["runtimeClassName"] = s.cfg.RuntimeClass
	}
	if !r.Internet {
		// A name that nobody answers for fails at once, instead of after the resolver's patience.
		spec["dnsPolicy"], spec["dnsConfig"] = "None", object{"nameservers": []string{"127.0.0.1"}}
	}
	labels := object{labelManaged: "hortus"}
	for k, v := range r.Labels {
		labels[k] = v
	}
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name(id), "labels": labels}, "spec": spec}, nil
}

// policyOf describes the NetworkPolicy of the sandboxes of a daemon: they connect to it and to nothing else, and nothing
// connects to them.
func (s *Service) policyOf(owner, ip string, port int) object {
	to := object{"ipBlock": object{"cidr": ip + bits(ip)}}
	if len(s.cfg.DaemonLabels) > 0 {
		labels := object{}
		for _, l := range s.cfg.DaemonLabels {
			k, v, _ := strings.Cut(l, "=")
			labels[k] = v
		}
		to = object{"podSelector": object{"matchLabels": labels}, "namespaceSelector": object{"matchLabels": object{"kubernetes.io/metadata.name": s.ownNamespace()}}}
	}
	return object{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": object{"name": policyName(owner), "labels": object{labelManaged: "hortus", remote.LabelOwner: owner}},
		"spec": object{
			"podSelector": object{"matchLabels": object{remote.LabelOwner: owner}},
			"policyTypes": []string{"Ingress", "Egress"},
			"egress":      []object{{"to": []object{to}, "ports": []object{{"protocol": "TCP", "port": port}}}},
		},
	}
}

func policyName(owner string) string { return "hortus-" + owner }

func bits(ip string) string {
	if strings.Contains(ip, ":") {
		return "/128"
	}
	return "/32"
}
