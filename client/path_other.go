//go:build !linux

package client

import "hortus.dev/api"

// shortPath returns a name for a socket that fits into an address.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) > maxSocketPath {
		return "", nil, api.Errorf(api.KindInvalid, "the socket path %s is too long for this system", path)
	}
	return path, func() {}, nil
}
