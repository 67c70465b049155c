// Package certificate provides the certificate of a TLS listener: from two files, which are read again when
// they change, or from a certificate authority that speaks ACME (RFC 8555), such as Let's Encrypt.
//
//	c, err := certificate.Open(certificate.Config{CertFile: "/etc/hortus/cert.pem", KeyFile: "/etc/hortus/key.pem"})
//	...
//	ln := tls.NewListener(tcp, c.TLS())
//
// What cannot be used at the start is an error that says what to do. What cannot be used later, such as a
// half-written file, is logged, and the last good certificate stays in use.
//
// The package must not know who listens, or what is served. It starts no goroutine; those of an ACME client
// end with its requests. Accounts and certificates of ACME are files in Config.Cache.
package certificate
