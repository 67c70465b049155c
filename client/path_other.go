//go:build !linux

package client

import "hortus.dev/api"

// shortPath gives a name for a socket that fits into an address.
func shortPath(path string) (short string, done func(), err error) {
	if len(path) > maxSocketPath {
		return "", nil, api.Errorf(api.KindInvalid, "the socket's path %s is longer than this system allows", path)
	}
	return path, func() {}, nil
}
