// Package resolve finds addresses by name and remembers them.
package resolve
