package diagnosis

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/child"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/backend/jail/launch"
)

// AppArmor of Ubuntu 23.10 and later: if this is 1, only a program whose profile allows it
// gets capabilities in its own user namespaces.
const (
	apparmorKnob = "kernel/apparmor_restrict_unprivileged_userns"
	apparmorFix  = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give this program an AppArmor profile with the userns permission (docs/security.md has one)."
)

// Workspace is what a host needs for workspaces.
const Workspace = "Put the data directory (--data-dir) on a local ext4, xfs or btrfs: a network file system or another overlay, such as a container's root, cannot hold a writable overlay. As root it also needs a kernel with id-mapped mounts (Linux 5.19)."

// Spawn explains why no process could be cloned into new namespaces.
func Spawn(err error) (reason, fix string) {
	var errno syscall.Errno
	errors.As(err, &errno)
	switch {
	case launch.Sysctl("user/max_user_namespaces") == "0":
		return "user namespaces are disabled (user.max_user_namespaces is 0)", "sysctl -w user.max_user_namespaces=15000"
	case launch.Sysctl("kernel/unprivileged_userns_clone") == "0" && os.Geteuid() != 0:
		return "only root can create user namespaces (kernel.unprivileged_userns_clone is 0)", "sysctl -w kernel.unprivileged_userns_clone=1"
	case launch.Sysctl(apparmorKnob) == "1" && (os.Geteuid() != 0 || errno == unix.EPERM || errno == unix.EACCES):
		return "AppArmor allows only listed programs to create user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1): " + err.Error(), apparmorFix
	case errno == unix.EPERM:
		return "the kernel refuses new namespaces: " + err.Error(), "Inside a container, allow clone with namespace flags in its seccomp profile, or run it with --privileged. The daemon must not run in a chroot."
	case errno == unix.ENOSPC || errno == unix.EUSERS:
		return "the maximum number of namespaces is reached: " + err.Error(), "Raise the sysctls user.max_*_namespaces."
	}
	return "cannot start a process in new namespaces: " + err.Error(), ""
}

// Start explains why a sandbox could not be built, given the error of its first process.
func Start(err error) (reason, fix string) {
	var s *child.StepError
	if !errors.As(err, &s) {
		return "the first process of a sandbox did not respond: " + err.Error(), ""
	}
	return Step(s)
}

// Step explains what a host lacks when a step of the start fails.
func Step(s *child.StepError) (reason, fix string) {
	reason = s.Error()
	switch {
	case s.Step == "mount /proc" && s.Errno == unix.EPERM, s.Step == initns.QuotaStep && s.Errno == unix.EROFS:
		fix = "Parts of /proc are masked, as in a container without privileges. Give the container an unmasked /proc (docker run --security-opt systempaths=unconfined)."
	case strings.HasPrefix(s.Step, initns.WorkspaceStep):
		fix = Workspace
	case s.Step == initns.CaptureStep:
		fix = "Use a kernel with nftables and its NAT: CONFIG_NF_TABLES, CONFIG_NF_TABLES_IPV4, CONFIG_NFT_CT, CONFIG_NFT_LIMIT, CONFIG_NFT_NAT and CONFIG_NFT_REDIR. If they are modules, load them: modprobe -a nf_tables nft_ct nft_limit nft_chain_nat nft_redir."
	case strings.HasPrefix(s.Step, "mount the root overlay"):
		fix = "Use a kernel that can mount overlayfs in a user namespace (Linux 5.11), and a file system that overlayfs accepts as a lower layer."
	case s.Errno == unix.ENOSYS:
		fix = "Use Linux 5.12 or later. Inside a container, allow the system call in its seccomp profile."
	case (s.Errno == unix.EPERM || s.Errno == unix.EACCES) && launch.Sysctl(apparmorKnob) == "1":
		reason += " (AppArmor removes capabilities in user namespaces: kernel.apparmor_restrict_unprivileged_userns is 1)"
		fix = apparmorFix
	case s.Errno == unix.EPERM:
		fix = "Allow mounts inside user namespaces: an outer container or a security module refuses this step."
	}
	return reason, fix
}

// noAttributes is a limit of kernels before Linux 6.6: an overlay in a user namespace uses
// user attributes of its upper layer, here a tmpfs, to hide a directory of a layer below.
const noAttributes = "this kernel's tmpfs does not support user extended attributes (Linux 6.6 or later does): after a file in a directory of a layer was removed, the directory cannot be removed or created again"

// Attributes returns what is limited by a tmpfs without user attributes; "" if this kernel's
// has them.
func Attributes() string {
	fd, err := unix.MemfdCreate("hortus-probe", unix.MFD_CLOEXEC) // a file on a tmpfs
	if err != nil {
		return noAttributes
	}
	defer unix.Close(fd)
	if unix.Fsetxattr(fd, "user.hortus", []byte("1"), 0) != nil {
		return noAttributes
	}
	return ""
}
