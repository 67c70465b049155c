// Package flags is flags that several commands share, and the values of flags: sizes,
// durations, NAME=VALUE pairs. It must not know commands.
//
//	type createCmd struct{ flags.Sandbox }
//	req, err := c.CreateRequest()
//
// A value is checked when it is parsed. Zero means the default to the API, so an explicit
// zero is refused here.
package flags
