package remote

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/platform/secretfile"
	"hortus.dev/internal/sandbox"
	"hortus.dev/internal/storage/layer"
	"hortus.dev/internal/storage/workspace"
)

// Config configures a backend.
type Config struct {
	Service Service
	// Dir contains the records of the machines, and the ID of this data directory.
	Dir string
	// Guest is the guest's executable, which must be static. The backend does not close it.
	Guest *os.File
	// Layers and Workspaces are what workspaces are made of.
	Layers     *layer.Store
	Workspaces *workspace.Store
	// Missing is why the backend cannot be used with this configuration; its zero value is nothing.
	Missing api.Ability
	// Internet lets sandboxes connect to everything that the service allows. Otherwise they can connect to nothing.
	Internet bool
	Logger   *slog.Logger
}

// Backend runs guests in the sandboxes of a service.
type Backend struct {
	sandbox.Unsupported
	cfg   Config
	log   *slog.Logger
	owner string // the value of LabelOwner

	packing sync.Mutex
	packed  []byte // the guest, compressed; nil until it is needed

	checking sync.Mutex
	checked  time.Time // of the last check
	failed   error     // what it found
}

// New makes a backend and its directory.
func New(cfg Config) (*Backend, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Service.Name(), err)
	}
	id, err := secretfile.Open(filepath.Join(cfg.Dir, "owner"))
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", cfg.Service.Name(), err)
	}
	return &Backend{cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), owner: hex.EncodeToString(id[:16])}, nil
}

// Name implements sandbox.Backend.
func (b *Backend) Name() string { return b.cfg.Service.Name() }

// Capabilities implements sandbox.Backend.
func (b *Backend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{StartTimeout: 2 * time.Minute, Adopt: true, Remote: true, Copied: true}
}

// check tries the service, unless that was done a moment ago.
func (b *Backend) check(ctx context.Context) error {
	b.checking.Lock()
	defer b.checking.Unlock()
	keep := time.Minute
	if b.failed != nil {
		keep = time.Second
	}
	if time.Since(b.checked) < keep {
		return b.failed
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	err := b.cfg.Service.Check(ctx)
	b.checked, b.failed = time.Now(), err
	return err
}

// Probe implements sandbox.Backend. It asks the service whether it accepts the API key, and creates nothing there.
func (b *Backend) Probe(ctx context.Context) api.BackendReport {
	name := b.Name()
	start := b.cfg.Missing
	start.Capability = api.CapStart
	if start.Reason == "" {
		if err := b.check(ctx); err != nil {
			start.Reason, start.Fix = err.Error(), api.HintOf(err)
		} else {
			start.OK, start.Reason = true, "sandboxes run on the machines of a service, which is trusted with their files and results"
		}
	}
	network := api.Ability{Capability: api.CapNoNetwork, OK: !b.cfg.Internet, Reason: "enforced by the service"}
	if b.cfg.Internet {
		network.Reason = "the setting " + name + ".internet opens everything that the service allows"
	}
	r := api.BackendReport{Backend: name, Abilities: []api.Ability{
		start, network,
		{Capability: api.CapIsolated, OK: true, Reason: "enforced by the service; nothing of this host is there"},
		{Capability: api.CapUserIdentity, OK: true, Reason: "commands run as the user of the service's template"},
		{Capability: api.CapLimitCPUTime, OK: true, Reason: "added up over live processes and the children that they reaped"},
		{Capability: api.CapLimitMemory, OK: true, Reason: "best effort: checked by the guest; the template has the limit of the service"},
		{Capability: api.CapLimitOutput, OK: true},
		{Capability: api.CapAdopt, OK: true},
		{Capability: api.CapPrograms, OK: true},
		{Capability: api.CapWorkspace, OK: true, Reason: "copied to the service at the start, and back at the end"},
		{Capability: api.CapEgress, Grade: api.EgressByNobody, Reason: "this host does not see the connections of a service's sandboxes", Fix: "use --isolation container or gvisor"},
	}}
	for _, a := range []api.Ability{
		{Capability: api.CapRootIdentity, Reason: "commands run as the user of the service's template", Fix: "use sudo in the sandbox, if the template has it"},
		{Capability: api.CapPause, Reason: "a pause of the service ends the connections of this host"},
		{Capability: api.CapLimitCPU, Reason: "the service's template decides"},
		{Capability: api.CapLimitProcs, Reason: "the service's template decides"},
		{Capability: api.CapLimitDisk, Reason: "the service's template decides"},
		{Capability: api.CapLimitDiskRate, Reason: "the service's template decides"},
		{Capability: api.CapPrivateFiles, Reason: "the root file system is that of the service's template, not of a template or an image of this host"},
		{Capability: api.CapCheckpoint, Reason: "a snapshot would stay at the service when it is removed here", Fix: "use --isolation gvisor"},
		{Capability: api.CapPool, Reason: "a guest that waits would be paid for"},
	} {
		if a.Capability != api.CapLimitDiskRate { // no backend has that
			a.Fix = cmp.Or(a.Fix, "use --isolation container or gvisor")
		}
		r.Abilities = append(r.Abilities, a)
	}
	for _, own := range b.cfg.Service.Abilities() {
		if own.Capability == api.CapStart && !start.OK {
			continue
		}
		i := slices.IndexFunc(r.Abilities, func(a api.Ability) bool { return a.Capability == own.Capability })
		own.OK = own.OK && (own.Capability != api.CapNoNetwork || !b.cfg.Internet)
		r.Abilities[i] = own
	}
	return r
}

// Validate implements sandbox.Backend.
func (b *Backend) Validate(_ context.Context, spec sandbox.Spec) error {
	refuse := func(what string, c api.Capability) error {
		return api.Errorf(api.KindUnsupported, "the %s backend cannot %s (capability %s)", b.Name(), what, c).WithHint("use --isolation container or gvisor")
	}
	if spec.Egress.Host != b.cfg.Internet {
		if b.cfg.Internet {
			return refuse("deny the network: the setting "+b.Name()+".internet opens it", api.CapNoNetwork)
		}
		return refuse("open the network", api.CapEgress)
	}
	if spec.Template != "" && spec.Template != api.HostTemplate {
		return refuse("start from template "+spec.Template+" of this host", api.CapPrivateFiles)
	}
	if w := spec.Workspace; w != nil {
		if err := w.CheckAccess(); err != nil {
			return err
		}
		if len(w.Access) > 0 {
			return refuse("make files of a workspace read-only", api.CapWorkspace)
		}
	}
	for _, l := range []struct {
		asked bool
		name  string
		cap   api.Capability
	}{
		{spec.Asked.CPUs, "cpus", api.CapLimitCPU}, {spec.Asked.Processes, "processes", api.CapLimitProcs},
		{spec.Asked.Disk, "disk", api.CapLimitDisk}, {spec.Asked.DiskRate, "disk write rate", api.CapLimitDiskRate},
	} {
		if l.asked && !b.enforces(l.cap) {
			return refuse("limit "+l.name, l.cap)
		}
	}
	return nil
}

// enforces reports whether the service has a capability that not every service has.
func (b *Backend) enforces(c api.Capability) bool {
	return slices.ContainsFunc(b.cfg.Service.Abilities(), func(a api.Ability) bool { return a.Capability == c && a.OK })
}

// guest returns the compressed guest.
func (b *Backend) guest() ([]byte, error) {
	b.packing.Lock()
	defer b.packing.Unlock()
	if b.packed != nil {
		return b.packed, nil
	}
	size, err := b.cfg.Guest.Seek(0, io.SeekEnd)
	var out bytes.Buffer
	if err == nil {
		z := gzip.NewWriter(&out)
		_, err = io.Copy(z, io.NewSectionReader(b.cfg.Guest, 0, size))
		err = errors.Join(err, z.Close())
	}
	if err != nil {
		return nil, api.Errorf(api.KindInternal, "read the guest: %w", err)
	}
	b.packed = out.Bytes()
	return b.packed, nil
}

// Start implements sandbox.Backend.
func (b *Backend) Start(ctx context.Context, spec sandbox.Spec) (_ sandbox.Machine, err error) {
	if !spec.ID.Valid() {
		return nil, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", spec.ID)
	}
	if err := b.Validate(ctx, spec); err != nil {
		return nil, err
	}
	if b.cfg.Missing.Reason != "" {
		return nil, api.Errorf(api.KindUnisolated, "this host cannot run the %s backend: %s", b.Name(), b.cfg.Missing.Reason).WithHint("%s", b.cfg.Missing.Fix)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	files, err := b.attach(ctx, spec.Workspace)
	if err != nil {
		return nil, err
	}
	r := record{Token: make([]byte, 32), Spec: spec}
	rand.Read(r.Token)
	m := newMachine(b, &r, files)
	defer func() {
		if err == nil {
			return
		}
		if _, kerr := m.end(context.WithoutCancel(ctx), false); kerr != nil {
			b.log.Error("cannot clean up a failed start", "sandbox", spec.ID, "error", kerr)
		}
	}()
	if err := b.write(r); err != nil {
		return nil, err
	}
	// What a canceled request creates is known only by its answer.
	creating, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	r.Box, err = b.cfg.Service.Create(creating, Request{
		Labels:   map[string]string{LabelSandbox: string(spec.ID), LabelOwner: b.owner},
		Internet: spec.Egress.Host, Lease: Lease, Limits: spec.Limits,
	})
	if r.Box.ID != "" {
		if cerr := b.claim(&r); err == nil {
			err = cerr
		}
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = m.boot(ctx, spec)
	}
	if err == nil {
		err = m.fill(ctx)
	}
	if err != nil {
		if cerr := ctx.Err(); cerr != nil && api.KindOf(err) != api.KindOf(cerr) { // an error of the end of ctx may say more
			err = cerr
		}
		return nil, api.Errorf(api.KindOf(err), "start sandbox %s: %w", spec.ID, err).WithHint("%s", api.HintOf(err))
	}
	m.watch()
	return m, nil
}

// claim stores the box of a sandbox. A service that gives the box of another sandbox of this host is refused: its end
// would be that one's.
func (b *Backend) claim(r *record) error {
	ids, err := b.recorded()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if other, err := b.read(id); err == nil && id != r.Spec.ID && other.Box.ID == r.Box.ID {
			taken := r.Box.ID
			r.Box = Box{} // it is not this sandbox's to end
			return api.Errorf(api.KindUnavailable, "%s created a sandbox with the ID %.80q, which is that of sandbox %s", b.Name(), taken, id)
		}
	}
	return b.write(*r)
}

// recorded lists the sandboxes that have a directory.
func (b *Backend) recorded() ([]api.SandboxID, error) {
	entries, err := os.ReadDir(b.cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, api.Errorf(api.KindInternal, "%s backend: %w", b.Name(), err)
	}
	var ids []api.SandboxID
	for _, e := range entries {
		if id := api.SandboxID(e.Name()); id.Valid() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Orphans implements sandbox.Backend. It lists the sandboxes that have a record, or a box with the labels.
func (b *Backend) Orphans(ctx context.Context) ([]api.SandboxID, error) {
	ids, err := b.recorded()
	if err != nil || b.cfg.Missing.Reason != "" {
		return ids, err
	}
	boxes, err := b.cfg.Service.List(ctx, b.owner)
	if err != nil {
		// What is recorded can still be reclaimed, and a box without a record ends with its lease.
		b.log.Warn("cannot list the sandboxes of the service", "service", b.Name(), "error", err)
		return ids, nil
	}
	for _, box := range boxes {
		if box.Sandbox.Valid() && !slices.Contains(ids, box.Sandbox) {
			ids = append(ids, box.Sandbox)
		}
	}
	return ids, nil
}

// Reclaim implements sandbox.Backend.
func (b *Backend) Reclaim(ctx context.Context, id api.SandboxID) (api.Proof, error) {
	if !id.Valid() {
		return api.Proof{}, api.Errorf(api.KindInvalid, "sandbox id %q is malformed", id)
	}
	r, err := b.read(id)
	if err != nil && api.KindOf(err) != api.KindNotFound {
		b.log.Warn("the record of a sandbox is damaged", "sandbox", id, "error", err)
	}
	return b.destroy(ctx, id, r.Box)
}

// destroy ends every box of a sandbox, and removes its record.
func (b *Backend) destroy(ctx context.Context, id api.SandboxID, known Box) (api.Proof, error) {
	proof := api.Proof{Killed: -1, Left: 1}
	boxes := []Box{known}
	if known.ID == "" {
		if b.cfg.Missing.Reason != "" {
			boxes = nil // it cannot have created any
		} else if listed, err := b.cfg.Service.List(ctx, b.owner); err != nil {
			return proof, err
		} else {
			boxes = slices.DeleteFunc(listed, func(box Box) bool { return box.Sandbox != id })
		}
	}
	for _, box := range boxes {
		if err := b.kill(ctx, box); err != nil {
			return proof, api.Errorf(api.KindOf(err), "end sandbox %s: %w", id, err).
				WithHint("the service ends it by itself within %v, as its deadline is not moved any more", Lease)
		}
	}
	if err := os.RemoveAll(b.dir(id)); err != nil {
		return proof, internal(id, err)
	}
	proof.Left, proof.How = 0, b.Name()+" no longer has a sandbox of that ID"
	if len(boxes) == 0 {
		proof.Killed, proof.How = 0, b.Name()+" lists no sandbox with its label"
	}
	return proof, nil
}

// kill ends a box and waits until the service no longer has it.
func (b *Backend) kill(ctx context.Context, box Box) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := b.cfg.Service.Kill(ctx, box); err != nil {
		return err
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		state, err := b.cfg.Service.State(ctx, box)
		if err != nil {
			return err
		}
		if state == Gone {
			return nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return api.Errorf(api.KindTimeout, "%s accepted the end of %s, and still has it (%s)", b.Name(), box.ID, state)
		}
	}
}

// Adopt implements sandbox.Backend.
func (b *Backend) Adopt(ctx context.Context, id api.SandboxID) (_ sandbox.Adopted, err error) {
	var none sandbox.Adopted
	r, err := b.read(id)
	if err == nil && r.Box.ID == "" {
		err = api.Errorf(api.KindNotFound, "sandbox %s had not started", id)
	}
	if err != nil {
		return none, err
	}
	switch state, err := b.cfg.Service.State(ctx, r.Box); {
	case err != nil:
		return none, err
	case state != Running:
		return none, api.Errorf(api.KindNotFound, "%s no longer runs sandbox %s (%s)", b.Name(), id, state)
	}
	files, err := b.attach(ctx, r.Spec.Workspace)
	if err != nil {
		return none, err
	}
	m := newMachine(b, &r, files)
	if err = m.reconnect(ctx); err == nil {
		err = files.readBefore(b.dir(id))
	}
	if err != nil {
		m.link.Close()
		files.release()
		return none, notAdopted(id, err)
	}
	m.watch()
	return sandbox.Adopted{Machine: m, Spec: r.Spec}, nil
}

// notAdopted is the error of Adopt after the service has said that the sandbox runs: KindConflict if another guest answers there, or if the
// record of its files is damaged.
func notAdopted(id api.SandboxID, err error) error {
	kind := api.KindOf(err)
	var no *refusedError
	if kind == api.KindInternal || errors.Is(err, errStranger) || errors.As(err, &no) && no.status == http.StatusForbidden {
		kind = api.KindConflict
	}
	e := api.Errorf(kind, "adopt sandbox %s: %w", id, err)
	e.RetryAfterMS = api.RetryAfterOf(err).Milliseconds()
	return e
}

// Close frees what the backend holds; its machines have ended or were left.
func (b *Backend) Close() error { return nil }

var _ sandbox.Backend = (*Backend)(nil)
