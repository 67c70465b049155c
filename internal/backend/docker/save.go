package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/sandbox"
)

const (
	// labelSaves is a label of the container that saves a sandbox: the sandbox's ID. It has no labelSandbox.
	labelSaves = "dev.hortus.saves"
	// savingFile, in the run directory, says that the container is paused for a save only.
	savingFile = "saving"
	// saverDir, in the run directory, is the directory that the container which saves the sandbox sees.
	saverDir = "saver"
	// maxSaved is the maximum size of what a save keeps, without holes, in bytes, and maxSavedFiles the maximum number of entries: no
	// sandbox of this backend has a limit of its disk.
	maxSaved      = 4 << 30
	maxSavedFiles = 1_000_000
	// noSaveFar is why nothing is saved at another host.
	noSaveFar = "sandboxes of a Docker engine at another host are not saved: what is saved is passed as descriptors of this machine"
	// noMemory is why memory is not saved.
	noMemory = "the memory of processes on the host's kernel cannot be saved"
	// saverMemory is the limit of memory of the container that saves a sandbox, in bytes.
	saverMemory = 1 << 30
)

// saverCaps are the capabilities of the program that saves a sandbox: to open the root of its first process, and to read all its files.
var saverCaps = []string{"SYS_PTRACE", "DAC_READ_SEARCH"}

// Mark implements sandbox.Backend.
func (b *Backend) Mark(_ context.Context, kind api.SnapshotKind) (api.ImageMark, error) {
	if b.at.far {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "%s (capability %s)", noSaveFar, api.CapCheckpoint)
	}
	if kind != api.SnapshotFiles {
		return api.ImageMark{}, api.Errorf(api.KindUnsupported, "the docker backend supports snapshots of files only, not of kind %q (capability %s)", kind, api.CapCheckpoint)
	}
	return api.ImageMark{Backend: b.Name()}, nil
}

// Restore implements sandbox.Backend.
func (b *Backend) Restore(ctx context.Context, spec sandbox.Spec, dir string) (sandbox.Machine, error) {
	if b.at.far {
		return nil, api.Errorf(api.KindUnsupported, "%s (capability %s)", noSaveFar, api.CapCheckpoint)
	}
	if spec.Workspace != nil {
		return nil, api.Errorf(api.KindInvalid, "a snapshot cannot be restored with a workspace: snapshots do not contain one")
	}
	files, err := image.Open(dir, []string{image.FilesName}, os.O_RDONLY)
	defer image.Close(files)
	if err != nil {
		return nil, err
	}
	m, err := b.boot(ctx, spec, files[0])
	if err != nil {
		return nil, err // without a type
	}
	return m, nil
}

// Save implements sandbox.Machine. It saves files: see package initns, EngineSave.
func (m *machine) Save(ctx context.Context, dir string, o sandbox.SaveOptions) (saved sandbox.Saved, err error) {
	switch {
	case m.wire != nil:
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s: %s (capability %s)", m.id, noSaveFar, api.CapCheckpoint)
	case o.Files && o.CopyMemory:
		return saved, api.Errorf(api.KindInvalid, "sandbox %s: memory cannot be copied if only files are saved", m.id).WithHint("Remove --files-only.")
	case m.spec.Workspace != nil:
		return saved, api.Errorf(api.KindUnsupported, "sandbox %s has a workspace, which a file snapshot does not contain", m.id)
	}
	if err := m.turn.take(ctx, m.id); err != nil {
		return saved, err
	}
	defer m.turn.end()
	if err := m.alive(); err != nil {
		return saved, err
	}
	was, err := m.b.paused(ctx, m.container)
	if err != nil {
		return saved, m.unlessEnded(err)
	}
	if !was {
		if err := os.WriteFile(m.savingFile(), nil, 0o600); err != nil {
			return saved, m.unlessEnded(api.Errorf(api.KindInternal, "save sandbox %s: %w", m.id, err))
		}
	}
	start := time.Now()
	stands := false
	defer func() {
		// Also after a failure, and if the caller has given up.
		if !was && !stands {
			if rerr := m.letGo(context.WithoutCancel(ctx)); rerr != nil && err == nil {
				err = m.unlessEnded(rerr)
			}
		}
		saved.Paused = time.Since(start)
	}()
	if !was {
		if err := m.halt(ctx); err != nil {
			return saved, m.unlessEnded(err)
		}
	}
	if err := m.b.saveFiles(ctx, m, dir); err != nil {
		return saved, m.unlessEnded(err)
	}
	// What is killed may have run for a moment.
	if still, err := m.b.paused(ctx, m.container); err != nil || !still {
		return saved, m.unlessEnded(cmp.Or(err, error(api.Errorf(api.KindUnavailable, "sandbox %s did not stay paused while it was saved", m.id))))
	}
	if err := m.alive(); err != nil {
		return saved, err
	}
	if stands = o.Hold && !was; stands {
		m.stands = true
	}
	saved.Kind, saved.Mark = api.SnapshotFiles, api.ImageMark{Backend: m.b.Name()}
	if !o.Files {
		saved.Why = noMemory
	}
	return saved, nil
}

// unlessEnded is the error of a save, or that the sandbox has ended.
func (m *machine) unlessEnded(err error) error {
	if ended := m.alive(); ended != nil {
		return ended
	}
	return err
}

func (m *machine) savingFile() string { return filepath.Join(m.b.rundir(m.id), savingFile) }

// letGo resumes a container that was paused for a save. The caller has the turn.
func (m *machine) letGo(ctx context.Context) error {
	if err := m.goOn(ctx); err != nil {
		return err
	}
	m.stands = false
	if err := os.Remove(m.savingFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.KindInternal, "sandbox %s: %w", m.id, err)
	}
	return nil
}

// Release implements sandbox.Machine.
func (m *machine) Release(ctx context.Context) error {
	if err := m.turn.take(ctx, m.id); err != nil {
		return err
	}
	defer m.turn.end()
	if err := m.alive(); err != nil || !m.stands {
		return err
	}
	return m.letGo(ctx)
}

// saveFiles writes what a sandbox that is paused has written into dir.
func (b *Backend) saveFiles(ctx context.Context, m *machine, dir string) (err error) {
	fail := func(err error) error { return api.Errorf(api.KindInternal, "save sandbox %s: %w", m.id, err) }
	if err := b.installGuest(); err != nil {
		return fail(err)
	}
	if err := b.removeSavers(ctx, m.id); err != nil {
		return err
	}
	below := filepath.Join(b.rundir(m.id), saverDir)
	if err := errors.Join(os.RemoveAll(below), os.Mkdir(below, 0o755)); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(below)
	birth, err := birthSocket(below)
	if err != nil {
		return fail(err)
	}
	defer birth.Close()
	out, err := os.OpenFile(filepath.Join(dir, image.FilesName), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if cerr := out.Close(); cerr != nil && err == nil {
			err = fail(cerr)
		}
	}()
	id, err := b.createSaver(ctx, m, below)
	if err != nil {
		return err
	}
	defer func() {
		if rerr := b.remove(context.WithoutCancel(ctx), id); rerr != nil && err == nil {
			err = rerr
		}
	}()
	if _, err := b.engine.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return engineError(fmt.Sprintf("start the container that saves sandbox %s", m.id), err)
	}
	pid, err := b.running(ctx, id)
	if err != nil {
		return err
	}
	conn, err := m.meetSaver(ctx, birth, pid)
	if err == nil {
		err = instructSaver(ctx, conn, out)
		conn.Close()
	}
	return saveError(ctx, m.id, err)
}

// meetSaver waits until the program connects. It ends with the sandbox.
func (m *machine) meetSaver(ctx context.Context, birth *birthListener, pid int) (*net.UnixConn, error) {
	ctx, cancel := context.WithTimeout(ctx, stageTimeout)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		select {
		case <-m.done:
			cancel()
		case <-ctx.Done():
		}
	})
	return birth.meet(ctx, pid)
}

// instructSaver tells the program what to write, and waits until it has.
func instructSaver(ctx context.Context, conn *net.UnixConn, out *os.File) error {
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := &child.Child{Conn: conn}
	if err := c.Send(initns.EngineSaveSpec{Entries: maxSavedFiles, Bytes: maxSaved}, []int{int(out.Fd())}); err != nil {
		return err
	}
	return c.AwaitReady()
}

// saveError is why the files of a sandbox were not saved.
func saveError(ctx context.Context, id api.SandboxID, err error) error {
	var step *child.StepError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return api.Errorf(api.KindOf(ctx.Err()), "timeout: sandbox %s was not saved: %w", id, ctx.Err())
	case errors.As(err, &step) && step.Step == initns.RefusedStep:
		return api.Errorf(api.KindConflict, "sandbox %s contains a file that cannot be saved: %s", id, step.Text).WithHint("Remove it and save again.")
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return api.Errorf(api.KindExhausted, "sandbox %s was not saved: the host's disk is full: %w", id, err).WithHint("free disk space: hortus gc")
	}
	return api.Errorf(api.KindInternal, "sandbox %s was not saved: %w", id, err)
}

// createSaver makes the container that saves a sandbox. It removes itself when its program has ended, which it does without its daemon.
// As in create, the end of ctx does not interrupt the call.
func (b *Backend) createSaver(ctx context.Context, m *machine, birth string) (string, error) {
	no := false
	threads := int64(64)
	o := client.ContainerCreateOptions{
		Name: name(m.id) + "-save",
		Config: &container.Config{
			Image: m.root.name, User: "0:0", WorkingDir: "/",
			Entrypoint: []string{initns.EngineDir + "/bin/" + initns.Argv0, initns.EngineSave},
			Env:        []string{"GOMAXPROCS=2"},
			Labels:     map[string]string{labelOwner: b.owner, labelSaves: string(m.id)},
		},
		HostConfig: &container.HostConfig{
			PidMode: container.PidMode("container:" + m.container), NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private",
			CapDrop: []string{"ALL"}, CapAdd: saverCaps, SecurityOpt: []string{"no-new-privileges:true"}, ReadonlyRootfs: true,
			LogConfig: container.LogConfig{Type: "none"}, RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			Init: &no, Runtime: b.cfg.Runtime, AutoRemove: true,
			Mounts:    []mount.Mount{overlay(initns.EngineDir+"/bin", b.guestDir(), b.emptyDir()), readOnly(birth, path.Dir(initns.EngineSocket))},
			Resources: container.Resources{CgroupParent: b.cfg.CgroupParent, Memory: saverMemory, MemorySwap: saverMemory, PidsLimit: &threads},
		},
	}
	if err := ctx.Err(); err != nil {
		return "", api.Errorf(api.KindOf(err), "timeout: sandbox %s was not saved: %w", m.id, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	got, err := b.engine.ContainerCreate(ctx, o)
	if cerrdefs.IsNotFound(err) { // the image was removed by somebody
		if err := b.ensureImage(ctx, m.root, true); err != nil {
			return "", err
		}
		got, err = b.engine.ContainerCreate(ctx, o)
	}
	if err != nil {
		return "", engineError(fmt.Sprintf("create the container that saves sandbox %s", m.id), err)
	}
	return got.ID, nil
}

// removeSavers removes what a save of an earlier daemon left in the engine.
func (b *Backend) removeSavers(ctx context.Context, id api.SandboxID) error {
	f := client.Filters{}.Add("label", labelOwner+"="+b.owner).Add("label", labelSaves+"="+string(id))
	got, err := b.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: f})
	if err != nil {
		return engineError("list the containers that save sandboxes", err)
	}
	for _, c := range got.Items {
		if c.Labels[labelOwner] != b.owner || c.Labels[labelSaves] != string(id) {
			continue
		}
		if err := b.remove(ctx, c.ID); err != nil {
			return err
		}
	}
	return nil
}

// endSave ends the save of an earlier daemon: it was not recorded. The sandbox runs on if it was paused for that only.
func (b *Backend) endSave(ctx context.Context, m *machine) error {
	if err := b.removeSavers(ctx, m.id); err != nil {
		return err
	}
	if _, err := os.Stat(m.savingFile()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return m.letGo(ctx)
}

// restoreError is why the files of a save were not restored.
func restoreError(id api.SandboxID, s *child.StepError) error {
	kind, hint := api.KindInternal, ""
	switch s.Errno {
	case unix.EBADMSG:
		kind = api.KindConflict
	case unix.EBUSY, unix.EXDEV:
		kind, hint = api.KindConflict, "A directory with a mount of the template was replaced when the snapshot was made."
	case unix.ENOSPC, unix.EDQUOT:
		kind, hint = api.KindExhausted, "Free space on the disk of the Docker engine: docker system df"
	}
	return api.Errorf(kind, "sandbox %s: %w", id, s).WithHint("%s", hint)
}
