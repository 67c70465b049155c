// Package network configures the way from a daemon to the servers that its sandboxes may reach: a proxy,
// additional authorities, and the hosts that the presets "git" and "models" stand for.
//
//	dialer, err := network.Config{Proxy: "http://proxy.example.org:3128"}.Dialer()
//
// A [Config] is plain data; what it makes belongs to the caller. The package must not know sandboxes or
// their policies.
package network
