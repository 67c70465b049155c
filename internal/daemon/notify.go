package daemon

import (
	"log/slog"
	"net"
	"strings"
	"time"
)

// notify tells a service manager that the daemon serves, where one started it: a
// datagram to the socket that NOTIFY_SOCKET names, an abstract one after "@".
func notify(getenv func(string) string, log *slog.Logger) {
	name := getenv("NOTIFY_SOCKET")
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "@") {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err == nil {
		defer c.Close()
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Write([]byte("READY=1"))
	}
	if err != nil {
		log.Warn("the service manager was not told", "socket", name, "error", err)
	}
}
