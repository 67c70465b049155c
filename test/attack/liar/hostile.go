package liar

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hortus.dev/internal/guest/birth"
)

// Hostile runs in place of a guest that has a kernel of its own: its one socket leads to the
// keeper, outside that kernel. The sandbox's variable [Variable] selects the lie.
func Hostile() int {
	buf := make([]byte, birth.MaxPacket)
	_, packet, err := receive(buf)
	var cfg birth.Config
	if err != nil || json.Unmarshal(packet, &cfg) != nil {
		return 1
	}
	lie := cfg.Env[Variable]
	if birthLie, ok := strings.CutPrefix(lie, "birth "); ok {
		sendPackets(birthLie)
		silence()
	}
	say := func(s string) { unix.Write(0, []byte(s)) }
	say(`{"ready":true}`)
	for { // streams and a save may come before "go", too

		fd, packet, err := receive(buf)
		if err != nil {
			return 1
		}
		switch {
		case bytes.HasPrefix(packet, []byte(birth.GoPacket)):
			// The variables may come as late as this.
			var claim birth.Claim
			if json.Unmarshal(packet[len(birth.GoPacket):], &claim) == nil && claim.Env[Variable] != "" {
				lie = claim.Env[Variable]
			}
			switch lie {
			case "closes its socket":
				for fd := range 3 {
					unix.Close(fd)
				}
				silence()
			case "reads nothing":
				silence()
			case "exits":
				return 0
			case "garbage", "huge packets", "descriptors", "reports without end", "quiet without end":
				go sendPackets(lie)
			}
		case string(packet) == birth.QuietPacket:
			switch lie {
			case "never quiet":
			case "quiet with an error":
				say(`{"quiet":true,"error":"` + strings.Repeat("\\u001b[2J", 200) + `"}`)
			case "quiet in megabytes":
				say(`{"quiet":true,"error":"` + strings.Repeat("x", 100<<10) + `"}`)
			default:
				say(`{"quiet":true}`) // while it holds streams
			}
		case fd >= 0 && lie == "holds every stream":
		case fd >= 0 && lie == "drops every stream":
			unix.Close(fd)
		case fd >= 0:
			c, err := net.FileConn(os.NewFile(uintptr(fd), "stream"))
			if err == nil {
				go serveLie(lie, c)
			}
		}
	}
}

func silence() {
	for {
		unix.Pause()
	}
}

// receive reads a packet and the descriptor beside it, or -1.
func receive(buf []byte) (int, []byte, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(0, buf, oob, 0)
	for err == unix.EINTR || err == unix.EAGAIN {
		unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1)
		n, oobn, _, _, err = unix.Recvmsg(0, buf, oob, 0)
	}
	if err == nil && n == 0 {
		err = unix.EPIPE
	}
	if err != nil {
		return -1, nil, err
	}
	if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) > 0 {
		if fds, err := unix.ParseUnixRights(&msgs[0]); err == nil && len(fds) > 0 {
			return fds[0], buf[:n], nil
		}
	}
	return -1, buf[:n], nil
}

// sendPackets sends one kind of packet until there is nobody to take it.
func sendPackets(kind string) {
	packet, fds := []byte("\x00\xff{]garbage"), []int(nil)
	switch kind {
	case "huge", "huge packets":
		packet = []byte(`{"ready":true,"error":"` + strings.Repeat("A", 100<<10) + `"}`)
	case "not ready":
		packet = []byte(`{"ready":false,"stage":"` + strings.Repeat("S", 1000) + `","error":"\u001b[2J` + strings.Repeat("\u00ff", 500) + `"}`)
	case "descriptors":
		packet = []byte(`{"ready":false,"error":"descriptors"}`)
		for range 100 {
			if p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
				fds = append(fds, p[0], p[1])
			}
		}
	case "reports without end":
		packet = []byte(`{"ready":true}`)
	case "quiet without end":
		packet = []byte(`{"quiet":true}`)
	case "exit":
		os.Exit(3)
	case "silence":
		return
	}
	for {
		var oob []byte
		if fds != nil {
			oob = unix.UnixRights(fds...)
		}
		switch err := unix.Sendmsg(0, packet, oob, nil, unix.MSG_NOSIGNAL); {
		case err == unix.EINTR || err == unix.EAGAIN:
			unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLOUT}}, -1)
		case err != nil && fds != nil:
			fds = nil // its kernel cannot send its own descriptors; without them then
		case err != nil:
			return
		}
	}
}
