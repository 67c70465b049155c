// Package version says which binary this is. It reads the binary itself and what
// the linker wrote into it; it must not know what the binary does.
package version
