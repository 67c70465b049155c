package processor

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Features identifies the architecture and the features of this host's processor.
var Features = sync.OnceValue(func() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH + "-unknown"
	}
	defer f.Close()
	return runtime.GOARCH + "-" + features(f)
})

// features is a digest of the features of the first processor in a cpuinfo file.
func features(r io.Reader) string {
	s := bufio.NewScanner(io.LimitReader(r, 1<<20))
	s.Buffer(nil, 64<<10)
	for s.Scan() {
		name, value, ok := strings.Cut(s.Text(), ":")
		if name = strings.TrimSpace(name); ok && (name == "flags" || name == "Features") {
			list := strings.Fields(value)
			slices.Sort(list)
			sum := sha256.Sum256([]byte(strings.Join(slices.Compact(list), " ")))
			return hex.EncodeToString(sum[:8])
		}
	}
	return "unknown"
}
