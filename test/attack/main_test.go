package attack

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/backend/jail/initns"
	wasmguest "hortus.dev/internal/backend/wasm/guest"
	wasmrun "hortus.dev/internal/backend/wasm/run"
	"hortus.dev/internal/guest"
	"hortus.dev/internal/guest/birth"
	"hortus.dev/internal/guest/sudo"
	"hortus.dev/test/attack/liar"
	"hortus.dev/test/reaper"
)

// The arguments by which this program knows what it is to be inside a sandbox.
const (
	roleProbe = "hortus-probe" // one escape
	roleBomb  = "hortus-bomb"  // something that eats resources
	roleWalk  = "hortus-walk"  // a look at every file
	roleName  = "hortus-names" // makes and checks files with odd names
	roleQuota = "hortus-quota" // takes what the kernel counts for each user
)

// layersDir keeps the host template for all tests of one run: it is the same for
// each of them, and building it is most of what a test would wait for.
var layersDir string

// modulesDir keeps the compiled interpreter of wasm for all tests of one run.
var modulesDir string

// TestMain lets the test binary be everything that the attacks need: the stage
// before the guest, an honest guest, a guest that lies, and the programs that run
// in a sandbox.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case initns.Argv0:
		os.Exit(initns.Main())
	case birth.Argv0:
		if len(os.Args) == 2 && os.Args[1] == birth.ArgStdio {
			os.Exit(liar.Hostile())
		}
		if lie := toldToLie(); lie != "" {
			os.Exit(liar.Main(lie))
		}
		os.Exit(guest.Main())
	case sudo.Argv0:
		os.Exit(sudo.Main())
	case wasmguest.Argv0:
		os.Exit(wasmguest.Main())
	case wasmrun.Argv0:
		os.Exit(wasmrun.Main())
	}
	if len(os.Args) >= 3 {
		switch os.Args[1] {
		case roleProbe:
			os.Exit(runProbe(os.Args[2], os.Args[3:]))
		case roleBomb:
			os.Exit(runBomb(os.Args[2]))
		case roleWalk:
			os.Exit(runWalk(os.Args[2:]))
		case roleName:
			os.Exit(runNames(os.Args[2:]))
		case roleQuota:
			os.Exit(runQuota(os.Args[2:]))
		}
	}
	os.Exit(reaper.Run(func() int { return runTests(m) }))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "hortus-attack-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	layersDir, modulesDir = filepath.Join(dir, "layers"), filepath.Join(dir, "modules")
	// Most of the liars' time is spent in waiting for them.
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := engine.close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// toldToLie looks at the configuration without taking it: the honest guest reads
// it again.
func toldToLie() string {
	buf := make([]byte, birth.MaxPacket)
	n, _, err := unix.Recvfrom(birth.ControlFD, buf, unix.MSG_PEEK)
	if err != nil {
		return ""
	}
	_, rest, ok := bytes.Cut(buf[:n], []byte(`"`+liar.Variable+`":"`))
	if !ok {
		return ""
	}
	lie, _, _ := strings.Cut(string(rest), `"`)
	return lie
}
