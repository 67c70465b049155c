// Package daytonatest has a server that speaks Daytona's API, written from the service's OpenAPI document, for tests of the
// backend daytona. The sandboxes behind it are containers of a Hortus that the test starts; the server keeps only which they
// are, and ends with its test.
//
//	d := daytonatest.Start(t, w.Client)
//	s, err := daytona.New(daytona.Config{APIURL: d.URL + "/api", Domains: []string{"127.0.0.1"}, Key: ...})
//
// What a request of the backend lacks or has too much fails the test. The package must not use the backend, whose mistakes it
// would share.
package daytonatest
