package version

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"hortus.dev/api/admin"
	"hortus.dev/internal/platform/embedded"
)

// release is set by the linker in release builds.
var release = "dev"

// Describe describes this binary.
func Describe() admin.Version {
	v := admin.Version{
		Version: release, Build: buildID(), Go: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, GuestEmbedded: len(embedded.Guest()) > 0,
	}
	if runsc := embedded.Runsc(); runsc != nil {
		v.GVisor = runsc.GVisor
	}
	if info, ok := debug.ReadBuildInfo(); ok && v.Version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	return v
}

// self names the executable that runs, also after it was replaced or deleted
// where the system can tell.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// buildID distinguishes one build from another. The Go linker writes an identifier of
// the content into every ELF executable; reading it costs less than hashing the
// file.
func buildID() string {
	name, err := self()
	if err != nil {
		return "unknown"
	}
	f, err := elf.Open(name)
	if err != nil {
		return contentID(name) // not an ELF file
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return contentID(name)
	}
	b, err := s.Data()
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// contentID serves executables without such an identifier.
func contentID(name string) string {
	f, err := os.Open(name)
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}
