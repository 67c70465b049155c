// Package console serves the files of the web console: dist, which is built from the folder web of the repository and embedded
// here.
//
//	c, err := console.New()
//	if c.Takes(r) {
//		c.ServeHTTP(w, r)
//	}
//
// The document is GET / of a browser. Its headers allow scripts, styles and requests of the own origin only, and no page may show
// it in a frame. Everything else is below /console/assets/, under names that change with the content, so that browsers keep it.
//
// The files are public: they have nothing of anybody's. The package must not know who is signed in, or the API that the page uses.
// Files are compressed when they are asked for first. It starts no goroutine.
package console
