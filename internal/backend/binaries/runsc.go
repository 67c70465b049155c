package binaries

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

// maxRunsc is the maximum size in bytes of an executable that is copied into memory. The
// embedded runsc has about 35 million.
const maxRunsc = 1 << 30

// openRunsc opens the runsc executable in sealed memory, and returns its gVisor version:
// the file at path or, if path is empty, the embedded one. It copies tens of megabytes,
// which takes tens of milliseconds.
//
// Errors: KindUnsupported if nothing is embedded, KindInvalid if the file cannot be read
// or contains no gVisor.
func openRunsc(path string) (*os.File, string, error) {
	if path != "" {
		return runscFile(path)
	}
	b := embedded.Runsc()
	if len(b) == 0 {
		return nil, "", api.Errorf(api.KindUnsupported, "this binary does not include gVisor").
			WithHint("build it once, which takes a few minutes: hortus gvisor build; or use a release or make build; or set HORTUS_RUNSC")
	}
	v := version.GVisor(bytes.NewReader(b))
	if v == "" {
		return nil, "", api.Errorf(api.KindInternal, "the embedded gVisor has no version")
	}
	f, err := sealed("hortus-runsc", bytes.NewReader(b))
	return f, v, err
}

func runscFile(path string) (*os.File, string, error) {
	bad := func(err error) error {
		return api.Errorf(api.KindInvalid, "HORTUS_RUNSC (daemon.runsc): %w", err).
			WithHint("set it to an executable built from cmd/hortus-runsc, or unset it")
	}
	src, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not block
	if err != nil {
		return nil, "", bad(err)
	}
	defer src.Close()
	switch info, err := src.Stat(); {
	case err != nil:
		return nil, "", bad(err)
	case !info.Mode().IsRegular():
		return nil, "", bad(errors.New(path + " is not a file"))
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
		return nil, "", bad(errors.New(path + " is not a Go program that includes gVisor"))
	}
	return f, v, nil
}
