package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/dialout"
	"hortus.dev/internal/guest/tunnel"
)

// dial runs a guest that connects to its host, which gives it its configuration.
func dial() error {
	var d birth.Dial
	if err := json.Unmarshal([]byte(os.Getenv(birth.DialVariable)), &d); err != nil {
		return fmt.Errorf("read the environment variable %s: %w", birth.DialVariable, err)
	}
	os.Unsetenv(birth.DialVariable)
	g, err := dialout.New(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	text, err := g.Fetch(ctx)
	var r birth.Remote
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return fmt.Errorf("fetch the configuration: %w", err)
	}
	t, err := prepareTunnels(r)
	if err != nil {
		return err
	}
	// Commands have the guest's uid. They must not read its tokens, or speak in its place.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl PR_SET_DUMPABLE", err)
	}
	t.server.claim(nil)
	return t.server.work(ctx, func(ctx context.Context) error {
		return g.Serve(ctx, func(c net.Conn) {
			if local, br := t.open(c); local != nil {
				// What went wrong with a stream is for its host to say.
				_ = tunnel.Carry(c, br, local, tunnel.Guest, nil)
			}
		})
	})
}

// copyExecutable copies this program's executable to a path, where every user can run it, and makes directories.
func copyExecutable(path string, dirs []string) error {
	for _, d := range dirs {
		if err := os.Mkdir(d, 0o755); err != nil {
			return err
		}
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	return err
}
