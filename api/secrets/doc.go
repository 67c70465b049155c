// Package secrets has the words for secrets: what one is, in which requests it may be used, and
// what is recorded of its uses. It checks requests that set secrets, and rules for headers that
// name them, for those who send them and for those who serve them.
//
//	if err := secrets.Check(req); err != nil {
//		return err
//	}
//
// No value of its types outlives its caller. Which secrets a sandbox may use is said in package
// api, as a [api.SecretGrant]. The package must not know where values are kept or used.
package secrets
