package jail

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/backend/jail/initns"
	"hortus.dev/internal/sandbox"
)

// tryKernel goes on where tryWith would stop, to a guest that answers: whether a
// kernel of its own runs here is known only when it does.
func (b *Backend) tryKernel(ch *child, is *initns.Spec, dir string, le *lease, add func(int) int, fds func() []int) (reason, fix string) {
	err := func() error {
		link := filepath.Join(dir, "link")
		if err := os.Mkdir(link, 0o700); err != nil {
			return err
		}
		fd, err := unix.Open(link, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		is.RunDir = add(fd)
		if le != nil {
			if err := unix.Fchown(fd, le.base, le.base); err != nil {
				return err
			}
		}
		spec := sandbox.Spec{ID: api.NewSandboxID(), Hostname: is.Hostname, Limits: api.Limits{DiskBytes: is.DiskBytes, MemoryBytes: 64 << 20, Processes: 64}}
		is.Probe = false
		if is.Keeper, err = b.keeperPlan(spec, nil, add); err != nil {
			return err
		}
		if err := ch.send(is, fds()); err != nil {
			return err
		}
		if err := ch.send(b.guestConfig(spec, nil), nil); err != nil {
			return err
		}
		disk, err := ch.awaitBuilt()
		if err != nil {
			return err
		}
		unix.Close(disk)
		return ch.awaitReady()
	}()
	if err == nil {
		return "", ""
	}
	if s, ok := err.(*stageError); ok {
		return explainStage(s)
	}
	return "the first process of a sandbox did not answer: " + err.Error(), ""
}
