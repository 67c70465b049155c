package binary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Seed holds the files that a daemon creates first and that are the same in every data
// directory of a machine: its template, the versions that the template's programs report,
// and the programs that gVisor's sandboxes run. Creating them takes five seconds of
// processor time and writes 40 MB.
type Seed struct{ dir string }

// NewSeed runs a daemon of the binary to create a seed, in a new directory below dir.
func NewSeed(binary, dir string) (Seed, error) {
	s := Seed{filepath.Join(dir, "seed")}
	for _, args := range [][]string{{"doctor"}, {"daemon", "stop"}} {
		cmd := exec.Command(binary, args...)
		cmd.Env = append(os.Environ(), "HORTUS_DATA_DIR="+s.dir, "HORTUS_CONFIG="+os.DevNull, "HOME="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return s, fmt.Errorf("hortus %q: %w: %s", args, err, out)
		}
	}
	return s, nil
}

// Plant makes a data directory with the files of the seed. They are hard links: a daemon
// only removes or replaces such files and never writes to them.
func (s Seed) Plant(data string) error {
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	for _, part := range []string{"layers", "bin", "inventory.json"} {
		from := filepath.Join(s.dir, part)
		if _, err := os.Stat(from); os.IsNotExist(err) {
			continue // a binary without gVisor unpacks nothing, and a machine without sandboxes reports nothing
		}
		if out, err := exec.Command("cp", "-al", from, data).CombinedOutput(); err != nil {
			return fmt.Errorf("plant %s: %w: %s", part, err, out)
		}
	}
	return nil
}
