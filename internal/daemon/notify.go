package daemon

import (
	"log/slog"
	"net"
	"strings"
	"time"
)

// tellManager tells the service manager that started the daemon, if one did, a state,
// as lines of assignments: a datagram to the socket that
// NOTIFY_SOCKET names, an abstract one after "@".
func tellManager(getenv func(string) string, log *slog.Logger, state string) {
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
		log.Warn("the service manager was not told", "socket", name, "error", err)
	}
}
