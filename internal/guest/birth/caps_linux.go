package birth

import "golang.org/x/sys/unix"

// OwnKernelCaps are the capabilities that a guest on a kernel of its own needs in addition
// to those of its identities. They apply inside that kernel only.
var OwnKernelCaps = []uintptr{
	unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, // to make Own and Files
	unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, // to start commands as identities
	unix.CAP_KILL,       // to end them
	unix.CAP_SYS_CHROOT, // to start them in a changed root
	unix.CAP_SYS_ADMIN,  // for mounts before the first command, and the host name
}
