package jail_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"hortus.dev/internal/backend/jail/image"
	"hortus.dev/internal/sandbox"
	"hortus.dev/test/tier"
)

// changes are scripts that change something below /srv/t. %s are random names of it.
var changes = []string{
	"echo $RANDOM-%s > %[1]s", "echo more >> %s", "rm -rf %s", "mv %s %s", "rm -rf %[1]s; mkdir -p %[1]s && echo n > %[1]s/%s",
	"chmod 6%[3]d0 %[1]s", "chown 1000:%[3]d %[1]s", "touch -d @%[3]d %[1]s", "ln %s %s", "ln -s %s %s", "rm -f p%[3]d; mkfifo p%[3]d",
	"rm -rf %[1]s; cp -a /srv/tree %[1]s", "rm -rf /srv/tree/deep", "rm -f /srv/tree/deep/file", "mkdir -p /srv/tree/deep && echo %[3]d > /srv/tree/deep/%[1]s",
	"truncate -s %[3]d00 %[1]s", "rm -rf %[1]s; cp -a %[2]s %[1]s", "f=$(stat -c %%y %[1]s) && echo %[3]d > %[1]s && touch -d \"$f\" %[1]s",
}

// TestForkedAgainAndAgain forks a sandbox after random changes: each child has what its parent had, though only what has
// changed since the last fork is in its newest layer.
func TestForkedAgainAndAgain(t *testing.T) {
	e := newEnv(t)
	sharesLayers(t, e)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	m, _ := e.start(t)
	sh(t, m, "root", many+"; head -c 9M /dev/urandom > /srv/big; mkdir /srv/t")
	name := func() string {
		names := []string{"a", "b", "c", "d"}
		return strings.Join([]string{names[random.IntN(4)], names[random.IntN(4)]}[:1+random.IntN(2)], "/")
	}
	before := 0
	for n := range tier.Count(16, 300) {
		script := []string{"cd /srv/t"}
		for range random.IntN(12) {
			text := fmt.Sprintf(changes[random.IntN(len(changes))], name(), name(), random.IntN(8))
			if i := strings.Index(text, "%!"); i >= 0 {
				text = text[:i]
			}
			script = append(script, "("+text+") 2>/dev/null")
		}
		sh(t, m, "root", strings.Join(script, "\n")+"\n[ $(find /srv/t | wc -l) -lt 1000 ] || rm -rf /srv/t/*; true")
		want := listed(t, m)
		dir := save(t, m, sandbox.SaveOptions{Fork: true})
		layers := layersOf(t, dir)
		if len(layers) > 1 && layers[0].Bytes > 1<<20 {
			t.Errorf("fork %d has %d bytes that it shares with none before", n, layers[0].Bytes)
		}
		if len(layers) > image.MaxLayers {
			t.Errorf("fork %d has %d layers", n, len(layers))
		}
		if len(layers) < before && before != image.MaxLayers {
			t.Errorf("fork %d has %d layers, and the one before had %d", n, len(layers), before)
		}
		before = len(layers)
		c := e.restored(t, dir)
		if got := listed(t, c); got != want {
			t.Fatalf("child %d has %s after\n%s", n, differs(got, want), strings.Join(script, "\n"))
		}
		// What the child is forked into has it too.
		if n%5 == 0 {
			sh(t, c, "root", "rm -rf /srv/t/a /srv/tree; echo c > /srv/t/b; "+many+"; rm /tmp/many/1*")
			want := listed(t, c)
			g := e.restored(t, save(t, c, sandbox.SaveOptions{Fork: true}))
			if got := listed(t, g); got != want {
				t.Fatalf("grandchild %d has %s", n, differs(got, want))
			}
			kill(t, g)
		}
		kill(t, c)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, m)
	if left, err := os.ReadDir(e.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestWritesThroughMemoryAreForked: a program that has a file mapped writes it without any change of the file's times,
// which the first assertion proves; the next fork has it nevertheless.
func TestWritesThroughMemoryAreForked(t *testing.T) {
	e := newEnv(t)
	sharesLayers(t, e)
	m, _ := e.start(t)
	sh(t, m, "root", many+`; head -c 16384 /dev/zero > /srv/mapped; cat > /srv/map.py <<'X'
import mmap, os, time
m = mmap.mmap(os.open("/srv/mapped", os.O_RDWR), 16384)
sum(m[0:16384])
open("/srv/ready", "w").close()
while not os.path.exists("/srv/go"): time.sleep(0.01)
m[5000:5005] = b"hello"
open("/srv/done", "w").close()
time.sleep(1000)
X
(setsid python3 /srv/map.py >/dev/null 2>&1 &); until [ -e /srv/ready ]; do sleep 0.01; done`)
	times := func() string { return sh(t, m, "root", "stat -c '%y %z' /srv/mapped") }
	was := times()
	fork(t, m, 1)
	sh(t, m, "root", ": > /srv/go; until [ -e /srv/done ]; do sleep 0.01; done")
	if now := times(); now != was {
		t.Logf("this kernel changes the times of the file: %s, %s", was, now)
	}
	want := sh(t, m, "root", "cksum < /srv/mapped")
	dir := fork(t, m, 2)
	if got := sh(t, e.restored(t, dir), "root", "cksum < /srv/mapped"); got != want {
		t.Errorf("the child has %s, its parent %s", got, want)
	}
}
