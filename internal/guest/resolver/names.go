package resolver

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"sync"

	"hortus.dev/internal/guest/birth"
)

// maxNames is the maximum number of names that have an address. Beyond it the name that was
// not used for the longest time loses its address, which is given again only after every other
// one.
const maxNames = 32 << 10

// reserved is the number of addresses at the beginning of the network that stand for no name:
// among them are those of the sandbox itself.
const reserved = 256

// Names are the names that have an address. They survive a save of the sandbox, together with
// the programs that know the addresses.
type Names struct {
	network netip.Prefix

	mu        sync.Mutex
	byName    map[string]*list.Element
	byAddress map[uint32]*list.Element
	used      list.List // of *entry, the one that was used last first
	next      uint32    // the number, in the network, of the address to try next
}

type entry struct {
	name   string
	number uint32
}

// NewNames returns an empty table.
func NewNames() *Names {
	return &Names{network: netip.MustParsePrefix(birth.FakeNetwork), byName: map[string]*list.Element{},
		byAddress: map[uint32]*list.Element{}, next: reserved}
}

// Fake reports whether an address may stand for a name.
func (t *Names) Fake(a netip.Addr) bool { return t.network.Contains(a) }

// Address returns the address of a name. It assigns one if there is none.
func (t *Names) Address(name string) netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byName[name]; e != nil {
		t.used.MoveToFront(e)
		return t.address(e.Value.(*entry).number)
	}
	if t.used.Len() >= maxNames {
		old := t.used.Remove(t.used.Back()).(*entry)
		delete(t.byName, old.name)
		delete(t.byAddress, old.number)
	}
	for t.byAddress[t.next] != nil {
		t.advance()
	}
	e := t.used.PushFront(&entry{name, t.next})
	t.byName[name], t.byAddress[t.next] = e, e
	a := t.address(t.next)
	t.advance()
	return a
}

// Name returns the name of an address.
func (t *Names) Name(a netip.Addr) (string, bool) {
	if !t.Fake(a) {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.byAddress[number(a)-number(t.network.Addr())]
	if e == nil {
		return "", false
	}
	t.used.MoveToFront(e)
	return e.Value.(*entry).name, true
}

// advance moves next. The last address of the network is left out, as a broadcast address.
func (t *Names) advance() {
	if t.next++; t.next == 1<<(32-t.network.Bits())-1 {
		t.next = reserved
	}
}

// address returns the nth address of the network.
func (t *Names) address(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], number(t.network.Addr())+n)
	return netip.AddrFrom4(b)
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
