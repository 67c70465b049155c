// Package systemd holds the units with which systemd runs a resident daemon. It
// is data, and must not know more of Hortus than the command line of its daemon.
// Nothing in it lives.
package systemd
