package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// Code is why a connection could not be made.
type Code string

const (
	// Unresolved: the name does not exist, or has no address.
	Unresolved Code = "unresolved"
	// ResolverFailed: the resolver of the host did not answer.
	ResolverFailed Code = "resolver"
	// Forbidden: all addresses are ones that a sandbox must not reach.
	Forbidden Code = "forbidden"
	// Refused: nothing listens on the port.
	Refused Code = "refused"
	// Unreachable: there is no route.
	Unreachable Code = "unreachable"
	// Timeout: the server did not answer in time.
	Timeout Code = "timeout"
	// ProxyFailed: the proxy of the host does not answer, or refuses.
	ProxyFailed Code = "proxy"
	// Canceled: the caller has ended the attempt.
	Canceled Code = "canceled"
	// Failed is any other error.
	Failed Code = "failed"
)

// Error is why a connection could not be made.
type Error struct {
	Code Code
	Host string
	Port int
	// Addr is the address that was tried or refused, if there is one.
	Addr netip.Addr
	// Detail completes the sentence of some codes.
	Detail string
	Err    error
}

// Error returns a sentence for a person.
func (e *Error) Error() string {
	switch e.Code {
	case Unresolved:
		return e.Host + " does not resolve"
	case ResolverFailed:
		return fmt.Sprintf("the DNS server of the host did not resolve %s", e.Host)
	case Forbidden:
		if e.Host == e.Addr.String() {
			return fmt.Sprintf("%s is %s", e.Host, e.Detail)
		}
		return fmt.Sprintf("%s resolves to %s, which is %s", e.Host, e.Addr, e.Detail)
	case Refused:
		return fmt.Sprintf("%s refuses connections to port %d", e.Host, e.Port)
	case Unreachable:
		return fmt.Sprintf("%s is unreachable from the host", e.Host)
	case Timeout:
		return fmt.Sprintf("%s port %d did not answer in time", e.Host, e.Port)
	case ProxyFailed:
		return fmt.Sprintf("the proxy of the host did not connect to %s port %d: %s", e.Host, e.Port, e.Detail)
	case Canceled:
		return fmt.Sprintf("the connection to %s port %d was canceled", e.Host, e.Port)
	}
	return fmt.Sprintf("cannot connect to %s port %d: %v", e.Host, e.Port, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// connectError is the error for a failed connection to an address.
func connectError(host string, port int, a netip.Addr, err error) *Error {
	e := &Error{Code: Failed, Host: host, Port: port, Addr: a, Err: err}
	var ne net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Code = Refused
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Code = Unreachable
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		e.Code = Timeout
	case errors.Is(err, context.Canceled):
		e.Code = Canceled
	}
	return e
}

// resolveError is the error for a failed lookup.
func resolveError(host string, port int, err error) *Error {
	e := &Error{Code: ResolverFailed, Host: host, Port: port, Err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Code = Unresolved
	case errors.Is(err, context.Canceled):
		e.Code = Canceled
	}
	return e
}
