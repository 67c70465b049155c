// Package registrycache is a pull-through cache of what package registries serve: an
// http.RoundTripper that answers requests for immutable artifacts from a directory of the host,
// and forwards everything else.
//
// An artifact is recognized by its path: npm tarballs, files of PyPI, versions of a Go module
// proxy, packages in a Debian pool. Indexes and other metadata change; they are never stored.
// Neither is what a request with credentials got, nor a download that is incomplete.
//
// Entries belong to a trust zone, for example an account: what one zone fetched does not answer
// the request of another. Contents are stored once, under their SHA-256, and checked at each
// hit: a file that was changed on disk is removed and fetched again. PyPI's paths contain a
// digest, which is checked before the file is stored. Other package managers check what they
// get themselves (npm's lock file, Go's checksum database, apt's signed indexes).
//
//	cache, err := registrycache.New(registrycache.Config{
//		Dir:  "/var/lib/hortus/registry",
//		Zone: func(r *http.Request) string { return accountOf(r.Context()) },
//		Next: transport,
//	})
//	...
//	defer cache.Close()
//	resp, err := cache.RoundTrip(req)
//
// Requests for an artifact that is being downloaded share the download. A download runs in a
// goroutine of the cache, which ends when the download does, when nothing reads it, or at Close.
// One process uses a directory at a time.
//
// The package must not know sandboxes, policies or TLS: Next must have verified the server.
package registrycache
