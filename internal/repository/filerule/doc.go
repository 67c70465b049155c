// Package filerule decides by path which files of a repository are off limits, read-only or
// writable.
//
// [Compile] turns an api.FilePolicy into a [Policy], which does not change and may be shared. The
// time of a decision grows with the number of globs and with the product of the components of
// a glob and of a path, whatever they are: neither the author of a glob nor that of a path can
// make one take long.
//
//	p, err := filerule.Compile(api.FilePolicy{OffLimits: []string{".env*", "!.env.example"}})
//	if err != nil {
//		return err
//	}
//	if rule := p.OffLimits("web/.env.local"); rule != "" {
//		fmt.Println("off limits by", rule)
//	}
//
// The package only compares text. It must not know files, git or sandboxes: those who use it must
// see to it that a path is the real one, without links.
//
// # Reasons
//
// Files that are off limits are left out when the checkout and its history are made, because a
// mask over a file leaves it readable in .git, and a rule of tools is no boundary. Hashes of
// commits inside therefore differ. A commit at such a path is not taken, whatever the sandbox
// did. *.pem is not in the default list: most are public certificates.
package filerule
