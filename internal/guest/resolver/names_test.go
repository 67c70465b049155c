package resolver

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestNames(t *testing.T) {
	n := NewNames()
	first := n.Address("a")
	if first != n.Address("a") || first == n.Address("b") || !n.Fake(first) {
		t.Errorf("%v", first)
	}
	if name, ok := n.Name(first); !ok || name != "a" {
		t.Errorf("%q", name)
	}
	for _, a := range []string{"198.18.0.0", "198.18.0.1", "198.18.0.2", "198.18.9.9", "198.19.255.255", "1.2.3.4"} {
		if name, ok := n.Name(netip.MustParseAddr(a)); ok {
			t.Errorf("%s stands for %q", a, name)
		}
	}
}

// TestNamesAreLimited assigns more names than fit. The ones that are used keep their address,
// and an address is not given again soon.
func TestNamesAreLimited(t *testing.T) {
	n := NewNames()
	kept, lost := n.Address("kept"), n.Address("lost")
	seen := map[netip.Addr]bool{kept: true, lost: true}
	const most = 1<<17 - reserved - 1 // addresses of the network
	for i := range most - 2 {
		a := n.Address(fmt.Sprintf("n%d", i))
		if seen[a] {
			t.Fatalf("%v was given twice, after %d names", a, i)
		}
		seen[a] = true
		if i%1000 == 0 && n.Address("kept") != kept {
			t.Fatal("a name that is used lost its address")
		}
	}
	if len(n.byName) != maxNames || len(n.byAddress) != maxNames || n.used.Len() != maxNames {
		t.Errorf("%d names, %d addresses", len(n.byName), len(n.byAddress))
	}
	if name, ok := n.Name(lost); ok {
		t.Errorf("an address that was lost stands for %q", name)
	}
	if again := n.Address("again"); again != lost {
		t.Errorf("%v comes after all of them; want %v", again, lost)
	}
}
