package check

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
)

// journal is everything that the suite's servers were sent. An attack succeeds if its token is
// found in it.
type journal struct {
	mu    sync.Mutex
	lines []string
}

// maxEntry and maxEntries bound the journal: a program that got past the wall may send anything.
const (
	maxEntry   = 64 << 10
	maxEntries = 20000
)

func (j *journal) add(where, what string) {
	if len(what) > maxEntry {
		what = what[:maxEntry]
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) < maxEntries {
		j.lines = append(j.lines, where+": "+what)
	}
}

// find returns the first entry with a token, shortened, or "".
func (j *journal) find(token string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, l := range j.lines {
		if strings.Contains(strings.ToLower(l), token) {
			return l[:min(len(l), 160)]
		}
	}
	return ""
}

// newToken returns a word that occurs nowhere else. It is a valid DNS label in lower case.
func newToken() string {
	b := make([]byte, 10)
	rand.Read(b)
	return "t" + hex.EncodeToString(b)
}
