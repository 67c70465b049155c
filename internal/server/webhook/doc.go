// Package webhook keeps the webhooks of accounts, and delivers the lifecycle events of sandboxes to them.
//
// An event is delivered at least once, and the events of one webhook in their order: the next one is sent when the one
// before was delivered or given up. A webhook has a position in the events, which is stored with the attempt that ends
// an event, so that another daemon continues where this one ended. An attempt is one request over HTTPS, signed with
// the webhook's secret. It follows no redirect, reads no body of an answer, has a time limit, and connects by the
// dialer that it was given, which decides what addresses are allowed.
//
//	hooks := webhook.New(webhook.Config{Rows: rows, Dial: dial, Encode: encode})
//	defer hooks.Close(ctx)
//	w, err := hooks.Create(ctx, api.Webhook{URL: "https://example.org/", Events: api.LifecycleTypes()}, secret)
//	hooks.Wake() // an event was stored
//
// Calls are for the account of the principal in the context: what is another account's does not exist.
//
// [Webhooks] has one goroutine, which starts attempts in goroutines of their own and stores what they return. Close
// ends it and waits for all of them. Close it before the store. Of daemons that share the rows one delivers, and another one when that
// one asks no more whether it does.
//
// The package must not know a store, the form of events on the wire, or which addresses are public.
package webhook
