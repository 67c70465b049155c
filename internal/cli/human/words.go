package human

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
)

// Prefixed puts a head before a text, unless the text is empty.
func Prefixed(head, text string) string {
	if text == "" {
		return ""
	}
	return head + text
}

// List joins the first few names of a list.
func List(paths []string) string {
	const most = 5
	if len(paths) > most {
		return Sanitize(strings.Join(paths[:most], ", ")) + fmt.Sprintf(" and %d more", len(paths)-most)
	}
	return Sanitize(strings.Join(paths, ", "))
}

// Count writes a number with its noun, or nothing for 0.
func Count(n int, noun string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// JoinNonEmpty joins what is not empty.
func JoinNonEmpty(head string, list ...string) string {
	list = slices.DeleteFunc(list, func(s string) bool { return s == "" })
	if len(list) == 0 {
		return ""
	}
	return head + strings.Join(list, ", ")
}

// Host joins a host with a port, unless that is 0, 80 or 443, which are the ports of a rule
// without any.
func Host(host string, port int) string {
	if port == 0 || port == 80 || port == 443 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}
