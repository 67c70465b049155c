package githttp

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// BenchmarkPush checks a push with a file that cannot be compressed, one that can, and many
// commits.
func BenchmarkPush(b *testing.B) {
	old := commitText("old")
	last, commits := old, []crafted(nil)
	for range 10_000 {
		last = commitText("x", commitName(last))
		commits = append(commits, crafted{kind: packCommit, content: last})
	}
	update := listOf("", commitName(old)+" "+commitName(last)+" refs/heads/hortus/x")
	create := listOf("", zeros+" "+commitName(last)+" refs/heads/hortus/x")
	for _, c := range []struct {
		name string
		list []byte
		pack []byte
	}{
		{"noise", create, packOf(crafted{kind: packBlob, content: []byte(randomText(16 << 20))})},
		{"text", create, packOf(crafted{kind: packBlob, content: []byte(strings.Repeat(string(commitText(randomText(50))), 100_000))})},
		{"commits", update, packOf(commits...)},
	} {
		whole := append(bytes.Clone(c.list), c.pack...)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(whole)))
			b.ReportAllocs()
			for b.Loop() {
				out, err := Check(sandboxRule(), post(b, receivePack, bytes.NewReader(whole)))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, out.Body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
