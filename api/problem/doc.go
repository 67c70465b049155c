// Package problem has errors as answers over HTTP: RFC 9457.
//
//	body := problem.Of(err, 0)
//	err := body.Err() // in the client
//
// The package must not know a server or a client.
package problem
