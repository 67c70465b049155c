// Package gateway names the S3 server that tests of the soak tier build: versitygw, over a directory. It is a module of its own, so that what it needs is
// not needed by Hortus.
package gateway
