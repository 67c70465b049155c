package tools

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestKeep(t *testing.T) {
	cache := t.TempDir()
	programs := map[string]string{Runsc: filepath.Join(cache, "r"), Guest: filepath.Join(cache, "g")}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(programs[name], []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(Runsc, "one")
	write(Guest, "two")
	first, err := keep(cache, programs)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keep(cache, programs); err != nil || again != first {
		t.Errorf("the same programs lie at %s and %s, %v", first, again, err)
	}
	write(Guest, "three")
	second, err := keep(cache, programs)
	if err != nil || second == first {
		t.Fatalf("another guest lies at %s, as the first, %v", second, err)
	}
	for dir, want := range map[string]string{first: "two", second: "three"} {
		if b, err := os.ReadFile(filepath.Join(dir, Guest)); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v; want %q", dir, b, err, want)
		}
	}
	long := time.Now().Add(-2 * unused)
	if err := os.Chtimes(first, long, long); err != nil {
		t.Fatal(err)
	}
	prune(cache, second)
	if _, err := os.Stat(first); err == nil {
		t.Error("what nobody asked for is still there")
	}
	if _, err := os.Stat(second); err != nil {
		t.Error("what is in use was removed")
	}
}

// TestPrune: the directory of a checkout in which nothing was built for some days is removed, also while another process waits for the lock to build in it.
func TestPrune(t *testing.T) {
	cache := t.TempDir()
	dirs := map[string]string{}
	lock := func(module string) (unlock func()) {
		t.Helper()
		unlock, dir, err := lockBuild(cache, module)
		if err != nil {
			t.Fatal(err)
		}
		dirs[module] = dir
		return unlock
	}
	age := func(module string, d time.Duration) {
		t.Helper()
		at := time.Now().Add(-d)
		if err := os.Chtimes(dirs[module], at, at); err != nil {
			t.Fatal(err)
		}
	}
	there := func(module string) bool {
		_, err := os.Stat(dirs[module])
		return err == nil
	}
	for _, module := range []string{"gone", "yesterday", "used", "next"} {
		lock(module)()
	}
	age("gone", unusedBuild+time.Hour)
	age("next", unusedBuild+time.Hour)
	age("used", unusedBuild+time.Hour)
	age("yesterday", unused+time.Hour)

	unlock := lock("used")
	next := make(chan error, 1)
	go func() {
		unlock, dir, err := lockBuild(cache, "next")
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "overlay.json"), nil, 0o600)
			unlock()
		}
		next <- err
	}()
	prune(cache, "")
	for module, want := range map[string]bool{"gone": false, "next": false, "yesterday": true, "used": true} {
		if there(module) != want {
			t.Errorf("%s is there: %t", module, !want)
		}
	}
	unlock()
	if err := <-next; err != nil || !there("next") {
		t.Error("the process that waited cannot build: ", err)
	}
}

func TestDir(t *testing.T) {
	dir := Dir(t)
	for _, name := range []string{Runsc, Guest} {
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode().Perm()&0o555 != 0o555 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
}
