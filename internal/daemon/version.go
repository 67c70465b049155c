package daemon

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"os"
	"runtime"
	"runtime/debug"

	"hortus.dev/api"
	"hortus.dev/internal/embedded"
)

// release is set by the linker in release builds.
var release = "dev"

// Version describes this binary.
func Version() api.Version {
	v := api.Version{
		Version: release, Build: buildID(), Go: runtime.Version(),
		OS: runtime.GOOS, Arch: runtime.GOARCH, GuestEmbedded: len(embedded.Guest()) > 0,
	}
	if info, ok := debug.ReadBuildInfo(); ok && v.Version == "dev" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	return v
}

// buildID tells one build from another. The Go linker writes an identifier of
// the content into every executable; reading it costs less than hashing the file.
func buildID() string {
	f, err := elf.Open("/proc/self/exe")
	if err != nil {
		return "unknown"
	}
	defer f.Close()
	s := f.Section(".note.go.buildid")
	if s == nil {
		return contentID()
	}
	b, err := s.Data()
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// contentID serves executables whose identifier was stripped.
func contentID() string {
	b, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return "unknown"
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}
