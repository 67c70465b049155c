package e2b

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/sandbox/build"
	"hortus.dev/internal/server/forward"
)

// Builds is what the server asks of builds of templates. Every call is made for the principal of its
// context; another account's builds and files are not found.
type Builds interface {
	Register(ctx context.Context, name string, tags []string, limits api.Limits) (id string, err error)
	Start(ctx context.Context, id string, req build.Request) error
	Status(ctx context.Context, id string, offset, most int) (build.Status, error)
}

// BuildFiles keeps the files of builds, on the same terms.
type BuildFiles interface {
	Has(ctx context.Context, name string) (bool, error)
	Put(ctx context.Context, name string, archive io.Reader) (string, error)
}

// builds serves requests about builds of templates.
type builds struct {
	catalog
	Builds
	files   BuildFiles
	limits  api.Limits
	egress  *api.EgressPolicy
	tickets *tickets
	forward *forward.Forwarder
}

func (d builds) register(to *router) {
	to.handle("POST /v3/templates", d.ofAccount(d.request))
	to.handle("GET /templates/{id}/files/{hash}", d.ofAccount(d.link))
	to.handle("POST /v2/templates/{id}/builds/{build}", d.named(d.start))
	to.handle("GET /templates/{id}/builds/{build}/status", d.named(d.status), "logsOffset", "limit", "level")
}

// ofAccount has the node that builds for the account of a request serve it.
func (d builds) ofAccount(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		about := forward.About{Door: forward.DoorE2B, Kind: forward.Builds, ID: api.PrincipalOf(r.Context()).Account}
		if done, err := d.forward.Pass(w, r, about); done || err != nil {
			return err
		}
		return h(w, r)
	}
}

// global is the name by which all nodes of a fleet know a build or an upload of this one: with the ID of the node.
func (d builds) global(name string) string {
	if self := d.forward.Self(); self != "" {
		name += "." + string(self)
	}
	return name
}

// ofNode has the node that a name is of serve a request. Without one it returns the node's own name of it.
func (d builds) ofNode(w http.ResponseWriter, r *http.Request, name string) (local string, done bool, err error) {
	local, node, found := strings.Cut(name, ".")
	if found {
		done, err = d.forward.Pass(w, r, forward.About{Door: forward.DoorE2B, Kind: forward.Machine, ID: node})
	}
	return local, done, err
}

// named serves a request about the build in its path.
func (d builds) named(h func(w http.ResponseWriter, r *http.Request, build string) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		local, done, err := d.ofNode(w, r, r.PathValue("build"))
		if done || err != nil {
			return err
		}
		s, err := d.Status(r.Context(), local, 0, 0)
		if err == nil && s.Name != r.PathValue("id") {
			err = api.Errorf(api.KindNotFound, "build %.80q not found", r.PathValue("build"))
		}
		if err != nil {
			return err
		}
		return h(w, r, local)
	}
}

// request registers a build.
func (d builds) request(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name     string   `json:"name"`
		Tags     []string `json:"tags"`
		CPUCount float64  `json:"cpuCount"`
		MemoryMB int64    `json:"memoryMB"`
		FreeDisk int64    `json:"minFreeDiskMb"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	name, tag := api.SplitTemplateName(in.Name)
	if len(in.Tags) == 0 || strings.Contains(in.Name, ":") {
		in.Tags = append(in.Tags, tag)
	}
	if to, ok := d.aliases[name]; ok {
		return api.Errorf(api.KindDenied, "template %.80q is built in (%s) and cannot be built", name, to)
	}
	const most = 1 << 24 // MiB
	switch {
	case in.CPUCount < 0 || in.CPUCount > 4096:
		return api.Errorf(api.KindInvalid, `option "cpuCount": %v is out of range`, in.CPUCount)
	case in.MemoryMB < 0 || in.MemoryMB > most:
		return api.Errorf(api.KindInvalid, `option "memoryMB": %d is out of range`, in.MemoryMB)
	case in.FreeDisk < 0 || in.FreeDisk > most:
		return api.Errorf(api.KindInvalid, `option "minFreeDiskMb": %d is out of range`, in.FreeDisk)
	}
	id, err := d.Register(r.Context(), name, in.Tags, api.Limits{CPUs: in.CPUCount, MemoryBytes: in.MemoryMB << 20, DiskBytes: in.FreeDisk << 20})
	if err != nil {
		return err
	}
	return answer(w, http.StatusAccepted, struct {
		TemplateID string   `json:"templateID"`
		BuildID    string   `json:"buildID"`
		Names      []string `json:"names"`
		Aliases    []string `json:"aliases"`
		Tags       []string `json:"tags"`
		Public     bool     `json:"public"`
	}{name, d.global(id), []string{name}, []string{name}, in.Tags, false})
}

// uploadPath is where files are uploaded. The last component is a ticket, which replaces the API key: clients
// send none there.
const uploadPath = "/templates/uploads/"

// link answers whether files are here, and where to upload them.
func (d builds) link(w http.ResponseWriter, r *http.Request) error {
	hash := r.PathValue("hash")
	has, err := d.files.Has(r.Context(), hash)
	if err != nil {
		return err
	}
	ticket, err := d.tickets.add(api.PrincipalOf(r.Context()), hash)
	if err != nil {
		return err
	}
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return answer(w, http.StatusCreated, struct {
		Present bool   `json:"present"`
		URL     string `json:"url"`
	}{has, scheme + "://" + r.Host + uploadPath + d.global(ticket)})
}

// upload stores files for who got the ticket.
func (d builds) upload(w http.ResponseWriter, r *http.Request) error {
	name, done, err := d.ofNode(w, r, strings.TrimPrefix(r.URL.Path, uploadPath))
	if done || err != nil {
		return err
	}
	t, ok := d.tickets.find(name)
	if !ok {
		return api.Errorf(api.KindNotFound, "this upload is unknown or has expired")
	}
	ctx := api.WithPrincipal(r.Context(), t.principal)
	_, err = d.files.Put(ctx, t.hash, http.MaxBytesReader(w, r.Body, build.MaxArchive))
	if err == nil {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
	}
	return err
}

// ticket allows one account to upload the files of one hash.
type ticket struct {
	principal api.Principal
	hash      string
	until     time.Time
}

// tickets are those that have not expired.
type tickets struct {
	mu  sync.Mutex
	all map[string]ticket
}

const (
	ticketLife = time.Hour
	maxTickets = 10_000
)

func (t *tickets) add(p api.Principal, hash string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if len(t.all) >= maxTickets {
		for name, k := range t.all {
			if now.After(k.until) {
				delete(t.all, name)
			}
		}
		if len(t.all) >= maxTickets {
			return "", api.Errorf(api.KindExhausted, "too many uploads have begun")
		}
	}
	name := rand.Text()
	t.all[name] = ticket{p, hash, now.Add(ticketLife)}
	return name, nil
}

func (t *tickets) find(name string) (ticket, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.all[name]
	return k, ok && time.Now().Before(k.until)
}

// buildStep is a step of a build. What clients tell only themselves is read and not used.
type buildStep struct {
	Type      string   `json:"type"`
	Args      []string `json:"args"`
	FilesHash string   `json:"filesHash"`
	Force     bool     `json:"force"`

	ForceUpload     *bool `json:"forceUpload"`
	ResolveSymlinks *bool `json:"resolveSymlinks"`
	Gzip            *bool `json:"gzip"`
}

// start starts a registered build.
func (d builds) start(w http.ResponseWriter, r *http.Request, id string) error {
	var in struct {
		FromImage    string      `json:"fromImage"`
		FromTemplate string      `json:"fromTemplate"`
		Registry     any         `json:"fromImageRegistry"`
		Steps        []buildStep `json:"steps"`
		StartCmd     string      `json:"startCmd"`
		ReadyCmd     string      `json:"readyCmd"`
		Force        bool        `json:"force"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	if in.Registry != nil {
		return refused("fromImageRegistry", "images are pulled with the credentials of the operator")
	}
	req := build.Request{
		Start: in.StartCmd, Ready: in.ReadyCmd, NoCache: in.Force, Egress: d.egress,
		Shell: []string{"/bin/bash", "-l", "-c"}, Dir: "/home/user", Stages: []build.Stage{{From: in.FromImage}},
	}
	stage := &req.Stages[0]
	switch image, _, _ := strings.Cut(in.FromImage, ":"); {
	case in.FromTemplate != "" && in.FromImage != "" || in.FromTemplate == "" && in.FromImage == "":
		return api.Errorf(api.KindInvalid, `one of the options "fromImage" and "fromTemplate" is required`)
	case image == baseImage:
		in.FromTemplate = "base"
	}
	if in.FromTemplate != "" {
		var err error
		if stage.From, err = d.template(in.FromTemplate); err != nil {
			return err
		}
	}
	if stage.From == api.HostTemplate {
		req.Limits = d.limits
	}
	if in.ReadyCmd != "" && in.StartCmd == "" {
		req.Start = "true" // wait for what the template is made of
	}
	for i, s := range in.Steps {
		step, err := s.step()
		if err != nil {
			return api.Errorf(api.KindOf(err), "step %d: %w", i+1, err)
		}
		stage.Steps = append(stage.Steps, step)
	}
	if err := d.Start(r.Context(), id, req); err != nil {
		return err
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// baseImage is the image that clients start from by default: the template base.
const baseImage = "e2bdev/base"

// step checks a step.
func (s buildStep) step() (build.Step, error) {
	out := build.Step{Op: build.Op(s.Type), Args: s.Args, Force: s.Force, Text: strings.TrimSpace(s.Type + " " + strings.Join(s.Args, " "))}
	n := len(s.Args)
	bad := false
	switch out.Op {
	case build.OpEnv:
		bad = n == 0 || n%2 != 0
	case build.OpWorkdir, build.OpUser:
		bad = n != 1
	case build.OpRun:
		if bad = n < 1 || n > 2; n == 2 {
			out.User, out.Args = s.Args[1], s.Args[:1]
		}
	case build.OpCopy:
		if bad = n < 2 || n > 4 || s.FilesHash == ""; bad {
			break
		}
		out.Args, out.Files = s.Args[:2], s.FilesHash
		if n > 2 {
			out.User = s.Args[2]
		}
		if n > 3 && s.Args[3] != "" {
			mode, err := strconv.ParseUint(s.Args[3], 8, 32)
			if err != nil || mode > 0o777 {
				return out, api.Errorf(api.KindInvalid, "mode %.20q is not octal permissions", s.Args[3])
			}
			m := uint32(mode)
			out.Mode = &m
		}
	default:
		return out, api.Errorf(api.KindUnsupported, "a step of type %.40q is not supported", s.Type)
	}
	if bad {
		return out, api.Errorf(api.KindInvalid, "a step of type %s with %d arguments is malformed", s.Type, n)
	}
	return out, nil
}

// maxEntries bounds the entries of a log in one answer.
const maxEntries = 100

// buildEntry is a line of the log of a build.
type buildEntry struct {
	Timestamp time.Time `json:"timestamp"`
	Level     string    `json:"level"`
	Message   string    `json:"message"`
	Step      string    `json:"step,omitempty"`
}

// buildReason is why a build failed, and in which step.
type buildReason struct {
	Message string `json:"message"`
	Step    string `json:"step,omitempty"`
}

// status answers the state of a build and the next entries of its log.
func (d builds) status(w http.ResponseWriter, r *http.Request, id string) error {
	q := r.URL.Query()
	offset := 0
	if raw := q.Get("logsOffset"); raw != "" {
		var err error
		if offset, err = strconv.Atoi(raw); err != nil || offset < 0 {
			return api.Errorf(api.KindInvalid, `parameter "logsOffset": %.40q is not a number`, raw)
		}
	}
	s, err := d.Status(r.Context(), id, offset, maxEntries)
	if err != nil {
		return err
	}
	out := struct {
		TemplateID string       `json:"templateID"`
		BuildID    string       `json:"buildID"`
		Status     build.State  `json:"status"`
		LogEntries []buildEntry `json:"logEntries"`
		Logs       []string     `json:"logs"`
		Reason     *buildReason `json:"reason,omitempty"`
	}{s.Name, r.PathValue("build"), s.State, []buildEntry{}, []string{}, nil}
	// Clients count the line with FROM, before all steps.
	step := func(i int) string {
		if i < 0 {
			return "base"
		}
		return strconv.Itoa(i + 1)
	}
	for _, l := range s.Lines {
		out.LogEntries = append(out.LogEntries, buildEntry{l.At, "info", l.Text, step(l.Step)})
	}
	if s.Err != nil {
		out.Reason = &buildReason{wireOf(s.Err).Message, step(s.FailedStep)}
	}
	return answer(w, http.StatusOK, out)
}
