package check

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
)

// Names of the suite's policy and of its test resolver.
const (
	openName    = "open.example.com"         // allowed, on loopback
	frontName   = "front.example.com"        // not allowed, the same servers
	otherName   = "other.example.com"        // not allowed, the same servers
	deniedName  = "denied.example.com"       // not allowed, does not exist
	labelParent = "labels.example.com"       // *.labels.example.com is allowed
	rebindName  = "rebind.example.com"       // *.rebind.example.com: public at first, then private
	metaName    = "metadata.example.com"     // allowed and private: a metadata service
	mappedName  = "mapped.example.com"       // allowed: loopback inside an IPv6 address
	natName     = "translated.example.com"   // allowed: loopback behind NAT64
	privateName = "private-name.example.com" // allowed: loopback
)

// publicAddress is an address of the documentation range: public, and nothing is there.
const publicAddress = "203.0.113.9"

// names are the addresses of the servers and the name by which sandboxes reach them.
type names struct {
	open   string
	listen netip.Addr // what open resolves to
	own    netip.Addr // an address of this host that is not loopback; invalid if there is none
	own6   netip.Addr
	// proxyOnly is true if the guest resolves the name itself, so that only its proxy port
	// carries it to the host.
	proxyOnly bool
	icmp      bool // the servers see ICMP
	lookups   *atomic.Int64
}

func testNames(own netip.Addr) names {
	return names{open: openName, listen: netip.MustParseAddr("127.0.0.1"), own: own, own6: ownAddress(true), lookups: new(atomic.Int64)}
}

// hostNames finds a name of this host that resolves to loopback or to an address of its own.
func hostNames() names {
	n := names{open: "localhost", listen: netip.MustParseAddr("127.0.0.1"), own: ownAddress(false), own6: ownAddress(true), proxyOnly: true, lookups: new(atomic.Int64)}
	f, err := os.Open("/etc/hosts")
	if err != nil {
		return n
	}
	defer f.Close()
	first := map[string]netip.Addr{}
	var order []string
	for in := bufio.NewScanner(io.LimitReader(f, 1<<20)); in.Scan(); {
		line, _, _ := strings.Cut(in.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil {
			continue
		}
		for _, name := range fields[1:] {
			name = strings.ToLower(name)
			if _, ok := first[name]; ok {
				first[name] = netip.Addr{} // more than one address
				continue
			}
			first[name] = a
			order = append(order, name)
		}
	}
	for _, name := range order {
		if a := first[name]; a.Is4() && (a.IsLoopback() || a == n.own) && name != "localhost" && !strings.HasSuffix(name, ".localhost") && plainName(name) {
			n.open, n.listen, n.proxyOnly = name, a, false
			return n
		}
	}
	return n
}

// plainName reports whether a name has only characters that every part of the way takes.
func plainName(s string) bool {
	return len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == "" && strings.Trim(s, "-.") == s && strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz")
}

// ownAddress returns an address of this host that is not loopback.
func ownAddress(six bool) netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}
	}
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		if a := p.Addr(); a.Is6() == six && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			return a
		}
	}
	return netip.Addr{}
}

// lookup is the resolver of tests. It lies where an attacker's would.
func (n *names) lookup(host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	at := func(a ...string) (out []netip.Addr, _ error) {
		for _, a := range a {
			out = append(out, netip.MustParseAddr(a))
		}
		return out, nil
	}
	switch {
	case host == openName, host == frontName, host == otherName, host == privateName:
		return []netip.Addr{n.listen}, nil
	case host == metaName:
		return at("169.254.169.254", "fd00:ec2::254")
	case host == mappedName:
		return at("::ffff:127.0.0.1")
	case host == natName:
		return at("64:ff9b::7f00:1")
	case strings.HasSuffix(host, ".both."+rebindName):
		return at(publicAddress, "127.0.0.1")
	case strings.HasSuffix(host, "."+rebindName):
		// The answer to the first question is public, the next one is not.
		if n.lookups.Add(1)%2 == 1 {
			return at(publicAddress)
		}
		return at("127.0.0.1")
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// quiet drops the log of a server: handshakes that fail are its daily life.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(true)
	return p
}
