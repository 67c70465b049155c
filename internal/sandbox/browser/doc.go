// Package browser shows and steers the browser inside a sandbox, over the Chrome DevTools Protocol at a port of it.
//
//	b := browser.New(browser.Config{Dial: sandboxes.Dial})
//	err := b.Watch(ctx, id, func(f api.BrowserFrame) error { ... })
//	control, err := b.Take(id, "")
//	err = b.Input(ctx, id, api.BrowserInput{Token: control.Token, ...})
//
// Everything that the browser says is hostile: its messages are bounded, and only the few that are asked for are read. Clients
// never speak the protocol through this package; those that want it connect to the port themselves, at [Browsers.Path].
//
// One client at a time has the control over a browser, for controlLife after its last input. The package does not know who
// may reach a sandbox: Dial refuses others. Controls live in memory, and a daemon that starts again has none. Each call has
// connections of its own, which end with it; there is nothing to close.
package browser
