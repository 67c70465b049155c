package cache

import (
	"container/list"
	"slices"
	"sync"
)

// maxKeptFiles is the maximum number of files in all listings that a [Cache] keeps: a few megabytes.
const maxKeptFiles = 30_000

// listed keeps the files of the commits that were listed last. A task lists the same two or three commits about
// twenty times, and a commit never changes.
type listed struct {
	mu     sync.Mutex
	last   list.List // of *listedCommit; the front was used last
	byName map[listedName]*list.Element
	files  int
}

// listedName is a commit of a repository. The same commit of another repository is another one: who may read
// one repository does not learn that the other has it.
type listedName struct{ repo, commit string }

type listedCommit struct {
	name    listedName
	entries []Entry
	bytes   int64
}

// find returns a copy of the files of a commit, and their size in bytes.
func (l *listed) find(name listedName) ([]Entry, int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.byName[name]
	if !ok {
		return nil, 0, false
	}
	l.last.MoveToFront(at)
	c := at.Value.(*listedCommit)
	return slices.Clone(c.entries), c.bytes, true
}

// keep adds the files of a commit, and drops those that were not used for the longest time.
func (l *listed) keep(name listedName, entries []Entry, bytes int64) {
	if len(entries) > maxKeptFiles {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.byName[name]; ok {
		return
	}
	if l.byName == nil {
		l.byName = map[listedName]*list.Element{}
	}
	l.byName[name] = l.last.PushFront(&listedCommit{name, slices.Clone(entries), bytes})
	l.files += len(entries) + 1 // an empty commit takes memory too
	for l.files > maxKeptFiles {
		l.drop(l.last.Back())
	}
}

// forget drops the commits of a repository, which is removed.
func (l *listed) forget(repo string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, at := range l.byName {
		if name.repo == repo {
			l.drop(at)
		}
	}
}

func (l *listed) drop(at *list.Element) {
	c := l.last.Remove(at).(*listedCommit)
	delete(l.byName, c.name)
	l.files -= len(c.entries) + 1
}
