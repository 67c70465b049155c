package jail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/keeper"
)

// explainSpawn finds why no process could be cloned into new namespaces.
func explainSpawn(err error) (reason, fix string) {
	var errno syscall.Errno
	errors.As(err, &errno)
	switch {
	case sysctl("/proc/sys/user/max_user_namespaces") == "0":
		return "user namespaces are switched off (user.max_user_namespaces is 0)", "Set sysctl user.max_user_namespaces to 15000 or more."
	case sysctl("/proc/sys/kernel/unprivileged_userns_clone") == "0" && os.Geteuid() != 0:
		return "user namespaces are for root only (kernel.unprivileged_userns_clone is 0)", "Set sysctl kernel.unprivileged_userns_clone to 1."
	case sysctl(apparmorKnob) == "1" && (os.Geteuid() != 0 || errno == unix.EPERM || errno == unix.EACCES):
		return "AppArmor lets listed programs only make user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1): " + err.Error(), apparmorFix
	case errno == unix.EPERM:
		return "the kernel refuses new namespaces: " + err.Error(), "Inside a container, allow clone with namespaces in its seccomp profile (or run it with --privileged); it also must not be in a chroot."
	case errno == unix.ENOSPC || errno == unix.EUSERS:
		return "the limit of namespaces is reached: " + err.Error(), "Raise the sysctls user.max_*_namespaces."
	}
	return "no process can be started in new namespaces: " + err.Error(), ""
}

// explainStage finds what a host lacks from the step that failed.
func explainStage(s *stageError) (reason, fix string) {
	reason = s.Error()
	switch {
	case s.Stage == "mount /proc" && s.Errno == unix.EPERM, s.Stage == initns.QuotaStep && s.Errno == unix.EROFS:
		fix = "Parts of /proc are covered here, as in a container without privileges; let it see a whole /proc (docker run --security-opt systempaths=unconfined)."
	case strings.HasPrefix(s.Stage, initns.WorkspaceStep):
		fix = workspaceFix
	case strings.HasPrefix(s.Stage, "mount the root overlay"):
		fix = "The kernel needs overlayfs that can be mounted in a user namespace (Linux 5.11), on a file system that an overlay accepts as its lower layer."
	case s.Errno == unix.ENOSYS:
		fix = "The kernel is older than Linux 5.12, or the seccomp profile of an outer container hides the call."
	case (s.Errno == unix.EPERM || s.Errno == unix.EACCES) && sysctl(apparmorKnob) == "1":
		reason += " (AppArmor takes the capabilities of user namespaces away: kernel.apparmor_restrict_unprivileged_userns is 1)"
		fix = apparmorFix
	case s.Errno == unix.EPERM:
		fix = "An outer container or a security module forbids this step; allow mounts inside user namespaces."
	}
	return reason, fix
}

func sysctl(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// fallen adds to the end of a control socket how the process behind it ended: a
// guest that dies on its way into life says no more itself.
func (u *unborn) fallen(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !u.m.end.within(statusWait) {
		return fmt.Errorf("its first process lives and has closed its control socket: %w", err)
	}
	ws, known := u.conn.Ended(statusWait)
	u.conn.Forget()
	return fmt.Errorf("%s: %w", endCause(ws, known, u.m.group.Stats().MemoryKills, u.m.b.cfg.Kernel != nil), err)
}

// birthError says why a guest did not come to life.
func birthError(ctx context.Context, id api.SandboxID, err error) error {
	if cerr := ctx.Err(); cerr != nil {
		return api.Errorf(api.KindOf(cerr), "sandbox %s did not start in time: %w", id, cerr)
	}
	var s *stageError
	if errors.As(err, &s) {
		if s.Stage == initns.SavedStep {
			return savedError(id, s)
		}
		if s.Stage == keeper.StepRestore {
			return api.Errorf(api.KindConflict, "sandbox %s: its image cannot be restored, cut short or of another kind: %s", id, s.Text)
		}
		reason, fix := explainStage(s)
		return api.Errorf(api.KindUnisolated, "sandbox %s: %s", id, reason).WithHint("%s", fix)
	}
	return api.Errorf(api.KindInternal, "sandbox %s: the guest did not start: %w", id, err)
}

func spawnError(err error) error {
	reason, fix := explainSpawn(err)
	return api.Errorf(api.KindUnisolated, "start a process in new namespaces: %s", reason).WithHint("%s", fix)
}
