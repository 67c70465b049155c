//go:build linux && !amd64

package privilege

// deniedHere are the calls that this architecture alone has.
var deniedHere []uintptr
