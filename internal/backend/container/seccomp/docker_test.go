package seccomp

import (
	"slices"
	"testing"

	docker "github.com/moby/profiles/seccomp"
)

// beyondDocker are the calls that are allowed here though Docker's default
// profile does not, with the reason.
var beyondDocker = map[string]string{}

// TestTighterThanDocker holds the policy to the default profile that Docker
// publishes: what is allowed here to a process without capabilities is allowed
// there too, and much less is.
func TestTighterThanDocker(t *testing.T) {
	theirs := map[string]bool{}
	for _, group := range docker.DefaultProfile().Syscalls {
		if group.Action != "SCMP_ACT_ALLOW" || group.Includes != nil && len(group.Includes.Caps) > 0 {
			continue
		}
		for _, name := range group.Names {
			theirs[name] = true
		}
	}
	if len(theirs) < 300 {
		t.Fatalf("Docker's profile allows %d calls; has its form changed?", len(theirs))
	}
	var ours []string
	for _, r := range Default(Options{GuestUID: -1, GuestGID: -1}).rules {
		ours = append(ours, r.name)
	}
	for _, name := range ours {
		if why, ok := beyondDocker[name]; ok {
			t.Logf("%s is allowed beyond Docker's profile: %s", name, why)
			continue
		}
		if !theirs[name] {
			t.Errorf("%s is allowed here and not by Docker's profile; take it out, or say why in beyondDocker", name)
		}
	}
	less := 0
	for name := range theirs {
		if !slices.Contains(ours, name) {
			less++
		}
	}
	t.Logf("%d calls that Docker allows are refused here", less)
	if less < 20 {
		t.Errorf("only %d calls are refused beyond Docker's profile", less)
	}
}
