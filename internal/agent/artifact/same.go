package artifact

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"hortus.dev/api"
)

// Key is equal for two artifacts that would run the same: same files apart from
// white space at line ends and the order of the list, same commands, timeouts
// and expectations. The note does not count.
func Key(a api.CodeArtifact) string {
	n := a
	n.Note = ""
	n.Run = strings.TrimSpace(a.Run)
	n.Install, n.Compile = strings.TrimSpace(a.Install), strings.TrimSpace(a.Compile)
	n.Shell = cmp.Or(n.Shell, "bash")
	n.Output = cmp.Or(n.Output, api.OutputNone)
	n.Expect = slices.Sorted(slices.Values(a.Expect))
	n.Files = slices.Clone(a.Files)
	for i := range n.Files {
		n.Files[i].Content = trimLines(n.Files[i].Content)
	}
	slices.SortFunc(n.Files, func(x, y api.File) int { return strings.Compare(x.Path, y.Path) })
	b, err := json.Marshal(n)
	if err != nil {
		// Only values that JSON cannot hold fail, and an artifact has none.
		panic(err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
