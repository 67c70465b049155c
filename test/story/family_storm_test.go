package story

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"hortus.dev/api"
	"hortus.dev/test/tier"
)

// familyStorm is a family with which several clients do things at once.
type familyStorm struct {
	*family
	// locks has a lock for each sandbox and snapshot. Who changes it, or looks at its memory, has the
	// lock alone; who forks or saves it shares the lock.
	locks map[string]*sync.RWMutex
}

// choose returns something of what there is, locked, with the values that it has; "" if there is nothing.
func (s *familyStorm) choose(random *rand.Rand, of map[string]stamps, alone bool) (id string, has stamps, unlock func()) {
	s.mu.Lock()
	ids := sorted(of)
	if len(ids) == 0 {
		s.mu.Unlock()
		return "", has, func() {}
	}
	id = ids[random.IntN(len(ids))]
	lock := s.locks[id]
	s.mu.Unlock()
	unlock = lock.RUnlock
	if alone {
		lock.Lock()
		unlock = lock.Unlock
	} else {
		lock.RLock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := of[id]
	if !ok { // it was removed meanwhile
		unlock()
		return "", has, func() {}
	}
	return id, has, unlock
}

// add adds what was made. It returns how many there are then.
func (s *familyStorm) add(to map[string]stamps, id string, has stamps) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	to[id], s.locks[id] = has, &sync.RWMutex{}
	return len(to)
}

// remove removes something that the caller has locked alone, if there is more than enough.
func (s *familyStorm) remove(of map[string]stamps, id string, enough int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == s.root || len(of) <= enough {
		return false
	}
	delete(of, id)
	return true
}

// try runs a command, and returns its output.
func (s *familyStorm) try(args ...string) (string, error) {
	r := s.g.patient(args...)
	if r.code != 0 {
		return "", fmt.Errorf("hortus %q: %s", args, r)
	}
	return strings.TrimSpace(r.stdout), nil
}

// does does one thing. It returns what it did; "" for nothing.
func (s *familyStorm) does(random *rand.Rand) (verb string, err error) {
	s.t.Helper()
	verbs := s.can(stormVerbs)
	verb = verbs[random.IntN(len(verbs))]
	of, alone := s.sandboxes, true
	switch verb {
	case "fork", "snapshot", "copy":
		alone = false
	case "restore":
		of, alone = s.snapshots, false
	case "remove":
		of = s.snapshots
	}
	id, has, unlock := s.choose(random, of, alone)
	defer unlock()
	if id == "" {
		return "", nil
	}
	switch verb {
	case "fork":
		return verb, s.fork(id, has)
	case "snapshot", "copy":
		args := []string{"sandbox", "snapshot", "--quiet", id}
		if verb == "copy" {
			args = append(args, "--copy-memory")
		}
		made, err := s.try(args...)
		if err == nil {
			s.add(s.snapshots, made, has)
		}
		return verb, err
	case "restore":
		made, err := s.try("sandbox", "create", "--quiet", "--template", id)
		if err == nil {
			s.check(made, has)
			s.add(s.sandboxes, made, has)
		}
		return verb, err
	case "suspend", "pause":
		args := []string{"sandbox", "pause", id}
		if verb == "suspend" {
			args = append(args, "--to-disk")
		}
		if _, err := s.try(args...); err != nil {
			return verb, err
		}
		_, err := s.try("sandbox", "resume", id)
		if err == nil {
			s.check(id, has)
		}
		return verb, err
	case "write":
		s.write(id, random.IntN(stampAll), random.IntN(stampAll))
	case "kill":
		if s.remove(s.sandboxes, id, 3) {
			s.check(id, has)
			_, err = s.try("sandbox", "kill", id)
		}
	case "remove":
		if s.remove(s.snapshots, id, 1) {
			_, err = s.try("snapshot", "rm", id)
		}
	}
	return verb, err
}

// stormVerbs are what is done, as often as each is named.
var stormVerbs = []string{"fork", "fork", "snapshot", "copy", "restore", "restore", "suspend", "pause", "write", "write", "kill", "kill", "remove"}

// fork makes two children.
func (s *familyStorm) fork(id string, has stamps) error {
	s.t.Helper()
	text, err := s.try("sandbox", "fork", id, "--count", "2", "--json")
	if err != nil {
		return err
	}
	var made api.ForkResult
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		return err
	}
	for _, c := range made.Children {
		if c.Sandbox == nil {
			return fmt.Errorf("a child of %s: %v", id, c.Error)
		}
		s.check(string(c.Sandbox.ID), has)
		s.add(s.sandboxes, string(c.Sandbox.ID), has)
	}
	return nil
}

// TestFamilyStorm has several clients fork, save, pause, restore, write and remove sandboxes of one family
// and snapshots of them, all at once. Each has its own memory, on every page.
func TestFamilyStorm(t *testing.T) {
	tier.Soak(t) // TestDaemonKilledWithFamilies does the same with kills
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=gvisor", "HORTUS_MAX_SANDBOXES=40")
	g.canSaveMemory()
	g.can("gvisor", api.CapPause)
	stormFamily(t, g, newFamily(t, g))
}

// TestFileFamilyStorm does the same with containers, whose files have the values: children and parents share them in layers.
func TestFileFamilyStorm(t *testing.T) {
	tier.Soak(t) // TestDaemonKilledWithFileFamilies runs five commands at once
	t.Parallel()
	g := newGarden(t)
	g.env = append(g.env, "HORTUS_POOL=0", "HORTUS_IDLE=10m", "HORTUS_ISOLATION=container", "HORTUS_MAX_SANDBOXES=40")
	g.can("container", api.CapStart, api.CapPause)
	stormFamily(t, g, newFileFamily(t, g))
}

func stormFamily(t *testing.T, g *garden, f *family) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &familyStorm{family: f, locks: map[string]*sync.RWMutex{}}
	s.writeAll(s.root)
	used := s.memory()
	s.add(s.sandboxes, s.root, s.sandboxes[s.root])

	const clients = 4
	each := tier.Count(4, 200)
	did := make([]map[string]int, clients)
	var wg sync.WaitGroup
	for i := range clients {
		did[i] = map[string]int{}
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			for range each {
				if t.Failed() {
					return
				}
				verb, err := s.does(random)
				if err == nil {
					err = s.shrink(random)
				}
				if err != nil {
					t.Errorf("%s: %v", verb, err)
				}
				did[i][verb]++
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.Fatalf("the daemon's log:\n%s", g.log())
	}
	all := map[string]int{}
	for _, d := range did {
		for verb, n := range d {
			all[verb] += n
		}
	}
	for _, id := range sorted(s.sandboxes) {
		s.check(id, s.sandboxes[id])
	}
	s.kept("after the storm")
	s.end(used)
	t.Logf("%d values; %v", s.last, all)
}

// shrink removes a sandbox and a snapshot, if there are too many.
func (s *familyStorm) shrink(random *rand.Rand) (err error) {
	id, _, unlock := s.choose(random, s.sandboxes, true)
	if id != "" && s.remove(s.sandboxes, id, 10) {
		_, err = s.try("sandbox", "kill", id)
	}
	unlock()
	if err != nil {
		return err
	}
	id, _, unlock = s.choose(random, s.snapshots, true)
	if id != "" && s.remove(s.snapshots, id, 6) {
		_, err = s.try("snapshot", "rm", id)
	}
	unlock()
	return err
}
