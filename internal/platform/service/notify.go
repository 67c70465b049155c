package service

import (
	"log/slog"
	"net"
	"strings"
	"time"
)

// maxStatus is the maximum length of a status in bytes.
const maxStatus = 512

// notify sends a state, as lines of assignments, and a status for people to the service
// manager, if there is one.
func (s *Service) notify(state, status string) {
	if s.cfg.Getenv == nil {
		return
	}
	status = strings.Map(func(r rune) rune { // each line would be an assignment
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(status, "?"))
	if len(status) > maxStatus {
		status = strings.ToValidUTF8(status[:maxStatus], "")
	}
	send(s.cfg.Getenv, s.log, strings.TrimPrefix(state+"\nSTATUS="+status, "\n"))
}

// send sends a datagram to the socket that NOTIFY_SOCKET names; a name that begins with "@"
// is an abstract one. It does nothing if the variable is not set.
func send(getenv func(string) string, log *slog.Logger, state string) {
	name := getenv("NOTIFY_SOCKET")
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "@") {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Write([]byte(state))
	}
	if err != nil {
		log.Warn("the service manager was not notified", "socket", name, "error", err)
	}
}
