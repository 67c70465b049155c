package daemon

import (
	"bytes"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/platform/embedded"
	"hortus.dev/internal/platform/version"
)

// maxRunsc bounds an executable that a setting names, in bytes; the embedded one
// has some 35 million.
const maxRunsc = 1 << 30

// runscBinary gives the executable that sandboxes of gVisor are made with, in sealed
// memory as the guest, and the version of gVisor in it: the file of a path or, when
// that is empty, the embedded one. It copies tens of megabytes, which takes tens of
// milliseconds and that much memory: to be called once, when gVisor is wanted.
//
// Errors are of KindUnsupported when nothing is embedded, of KindInvalid when the
// file cannot be read or holds no gVisor.
func runscBinary(path string) (*os.File, string, error) {
	if path != "" {
		return runscFile(path)
	}
	b := embedded.Runsc()
	if len(b) == 0 {
		return nil, "", api.Errorf(api.KindUnsupported, "this binary has no gVisor in it").
			WithHint("build it, once, in some minutes: hortus gvisor build; or use a binary of a release or of make build; or set HORTUS_RUNSC")
	}
	v := version.GVisor(bytes.NewReader(b))
	if v == "" {
		return nil, "", api.Errorf(api.KindInternal, "what is embedded as gVisor does not say its version")
	}
	f, err := sealed("hortus-runsc", bytes.NewReader(b))
	return f, v, err
}

func runscFile(path string) (*os.File, string, error) {
	bad := func(err error) error {
		return api.Errorf(api.KindInvalid, "HORTUS_RUNSC (daemon.runsc): %w", err).
			WithHint("set it to an executable built of cmd/hortus-runsc, or not at all")
	}
	src, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not keep us
	if err != nil {
		return nil, "", bad(err)
	}
	defer src.Close()
	switch info, err := src.Stat(); {
	case err != nil:
		return nil, "", bad(err)
	case !info.Mode().IsRegular():
		return nil, "", bad(errors.New(path + " is no file"))
	case info.Size() > maxRunsc:
		return nil, "", bad(errors.New(path + " is too large"))
	}
	f, err := sealed("hortus-runsc", io.LimitReader(src, maxRunsc))
	if err != nil {
		return nil, "", err
	}
	// Of the copy: the file may change.
	v := version.GVisor(f)
	if v == "" {
		f.Close()
		return nil, "", bad(errors.New(path + " is no Go program with gVisor in it"))
	}
	return f, v, nil
}
