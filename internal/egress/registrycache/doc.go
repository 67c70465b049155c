// Package registrycache is a pull-through cache of what package registries serve: it
// answers requests for immutable artifacts from a directory of the host, and forwards everything
// else.
//
// An artifact is recognized by its path: npm tarballs, files of PyPI, versions of a Go module
// proxy, packages in a Debian pool. Indexes and other metadata change; they are never stored.
// Neither is what a request with credentials or with unknown headers got, nor a download that is
// incomplete. Such a request is not answered from the cache either.
//
// Entries belong to a trust zone, for example an account: what one zone fetched does not answer
// the request of another. Contents are stored once, under their SHA-256, and checked at each
// hit: a file that was changed on disk is removed and fetched again. PyPI's paths contain a
// digest, which is checked before the file is stored. Other package managers check what they
// get themselves (npm's lock file, Go's checksum database, apt's signed indexes).
//
//	cache, err := registrycache.New(registrycache.Config{Dir: "/var/lib/hortus/packages"})
//	...
//	defer cache.Close()
//	resp, err := cache.RoundTrip(req, "account/alice", transport)
//
// The directory is read when the first request for an artifact comes, so that New costs nothing.
// An entry is of one scheme, host and path: a file of one host never answers for another.
//
// Requests for an artifact that is being downloaded share the download. A download runs in a
// goroutine of the cache, which ends when the download does, when nothing reads it, or at Close.
// One process uses a directory at a time.
//
// The package must not know sandboxes, policies or TLS: the transport must have verified the server.
package registrycache
