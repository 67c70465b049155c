package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/repository/git"
	"hortus.dev/internal/repository/git/shadow"
)

// access is a remote with the credentials for it.
type access struct {
	git.Remote
	auth *git.Auth
}

func (c *Cache) access(s git.Source) (access, error) {
	r, err := git.ParseRemote(s.URL, c.cfg.Insecure)
	if err != nil {
		return access{}, err
	}
	if s.Auth != nil {
		if r.Scheme != "https" && r.Scheme != "http" {
			return access{}, api.Errorf(api.KindInvalid, "%s: a token can be used with https only", r.URL)
		}
		if s.Auth.Token == "" || strings.ContainsAny(s.Auth.Username+s.Auth.Token, "\r\n\x00") || strings.Contains(s.Auth.Username, ":") {
			return access{}, api.Errorf(api.KindInvalid, "%s: the user name or the token is invalid", r.URL)
		}
	}
	return access{r, s.Auth}, nil
}

// withAccess allows a call to connect to the remote, and to nothing else.
func (c *Cache) withAccess(a access, k git.Call) git.Call {
	k.Env = append(k.Env, git.AllowProtocol(a.Scheme))
	k.Config = append(k.Config, "protocol."+a.Scheme+".allow", "always")
	k.SSH = a.Scheme == "ssh"
	if a.Scheme == "http" || a.Scheme == "https" {
		k.Config = append(k.Config, "http.proxy", c.cfg.Proxy)
		if c.cfg.CAFile != "" {
			k.Config = append(k.Config, "http.sslCAInfo", c.cfg.CAFile)
		}
	}
	if a.auth != nil {
		k.Config = append(k.Config, "http."+a.URL+".extraHeader", "Authorization: Basic "+a.auth.Basic())
		k.Secrets = a.auth.Secrets()
	}
	return k
}

// fetchOnce creates or updates the cached copy of a remote. depart is called before its
// refs are listed: what is pushed later may be missing.
func (c *Cache) fetchOnce(ctx context.Context, a access, s git.Source, depart func(), progress func(line string)) (_ *Repo, did Fetched, err error) {
	r := c.repo(a.Remote)
	lock, err := r.lock(ctx)
	if err != nil {
		return nil, did, err
	}
	defer lock.Close()
	defer os.RemoveAll(r.workDir())
	c.at("locked")

	if a.Scheme == "file" {
		// Read the repository at a path through a shadow.
		found, e := shadow.Open(c.git, ctx, a.URL, s.Owners)
		if e == nil {
			e = found.CheckComplete()
		}
		if e != nil {
			return nil, did, e
		}
		depart() // the shadow has copies of the refs
		shadow := filepath.Join(r.workDir(), "source")
		if err := found.Shadow(ctx, shadow, true); err != nil {
			return nil, did, err
		}
		a.URL = shadow
		defer func() { err = found.Explain(err, shadow) }()
	}
	depart()
	ad, err := c.advertised(ctx, a, lock)
	if err != nil {
		return nil, did, err
	}
	c.at("listed")
	if _, err := os.Stat(r.dir); err == nil {
		have, err := r.current(ctx)
		if err == nil && have.equal(ad) {
			did.Unchanged = true
			return r, did, nil
		}
		if err == nil {
			did, err = r.update(ctx, r.dir, a, ad, lock, progress)
		}
		if err != nil {
			return nil, did, err
		}
		return r, did, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, did, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	aside := r.base + ".new"
	defer os.RemoveAll(aside)
	if err := git.InitBare(ctx, c.git, aside, ad.format()); err != nil {
		return nil, did, err
	}
	c.at("initialized")
	did, err = r.update(ctx, aside, a, ad, lock, progress)
	did.Cold = true
	if err != nil {
		return nil, did, err
	}
	if err := os.Rename(aside, r.dir); err != nil {
		return nil, did, api.Errorf(api.KindInternal, "repository cache: %w", err)
	}
	c.at("renamed")
	return r, did, nil
}

// update fetches into dir, the repository or its first, temporary directory.
func (r *Repo) update(ctx context.Context, dir string, a access, ad advertisement, lock *os.File, progress func(string)) (did Fetched, err error) {
	c := r.cache
	if len(ad.refs) == 0 && ad.head == "" {
		return did, r.forget(ctx, dir)
	}
	if err := c.cfg.Space.Check("the copy of a repository", 0); err != nil {
		return did, err
	}
	before := sizeOf(dir)
	refspecs := []string{"+refs/heads/*:" + remoteHeads + "*", "+refs/tags/*:" + remoteTags + "*"}
	if ad.head != "" {
		refspecs = append(refspecs, "+HEAD:refs/hortus/detached")
	}
	// The depth means everything. With a depth git refuses the dumb HTTP protocol, whose
	// objects would not be checked.
	args := append([]string{"fetch", "--progress", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-show-forced-updates", "--depth=2147483647", "--end-of-options", a.URL}, refspecs...)

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watch sync.WaitGroup
	done := make(chan struct{})
	watch.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				if err := c.tooLarge(dir); err != nil {
					stop(err)
				}
			}
		}
	})
	lines := func(line string) {
		if n, ok := received(line); ok {
			did.Objects = n
		}
		if progress != nil && isProgress(line) {
			progress(line)
		}
	}
	_, err = c.git.Run(ctx, c.withAccess(a, git.Call{GitDir: dir, Args: args, Lines: lines, Lock: lock}))
	close(done)
	watch.Wait()
	if err == nil {
		err = c.tooLarge(dir)
	}
	if err != nil {
		r.removeLeftovers()
		return did, err
	}
	c.at("fetched")
	did.Bytes = max(sizeOf(dir)-before, 0)
	head := []string{"symbolic-ref", remoteHead, remoteHeads + strings.TrimPrefix(ad.branch, "refs/heads/")}
	switch {
	case ad.head == "":
		head = []string{"update-ref", "--no-deref", "-d", remoteHead}
	case ad.branch == "":
		head = []string{"update-ref", "--no-deref", remoteHead, ad.head}
	}
	_, err = c.git.Run(ctx, git.Call{GitDir: dir, Args: head, Lock: lock})
	c.at("head set")
	return did, err
}

// forget removes all refs of a remote that has become empty.
func (r *Repo) forget(ctx context.Context, dir string) error {
	out, err := r.git.Run(ctx, git.Call{GitDir: dir, Args: []string{"for-each-ref", "--format=delete %(refname)", "refs/hortus/remote/", "refs/hortus/detached"}})
	if err != nil {
		return err
	}
	in := "option no-deref\ndelete " + remoteHead + "\n" + string(out)
	_, err = r.git.Run(ctx, git.Call{GitDir: dir, Args: []string{"update-ref", "--stdin"}, Stdin: strings.NewReader(in)})
	return err
}

// tooLarge returns KindExhausted if a repository exceeds Config.MaxBytes, or its disk is below the floor.
func (c *Cache) tooLarge(dir string) error {
	if sizeOf(dir) > c.cfg.MaxBytes {
		return api.Errorf(api.KindExhausted, "the repository exceeds the cache's limit of %d bytes", c.cfg.MaxBytes)
	}
	return c.cfg.Space.Check("the copy of a repository", 0)
}

// advertisement has the refs that a remote advertises.
type advertisement struct {
	head   string            // the commit of HEAD; empty if there is none
	branch string            // the full name of HEAD's branch; empty if detached
	refs   map[string]string // full name to object, of branches and tags
}

// format is the object format of the remote.
func (a advertisement) format() string {
	if len(a.head) == 64 {
		return "sha256"
	}
	for _, h := range a.refs {
		if len(h) == 64 {
			return "sha256"
		}
	}
	return "sha1"
}

// advertised lists the given refs of a remote, by default all branches and tags.
func (c *Cache) advertised(ctx context.Context, a access, lock *os.File, refs ...string) (advertisement, error) {
	if len(refs) == 0 {
		refs = []string{"HEAD", "refs/heads/*", "refs/tags/*"}
	}
	// Each line has a hash and a name; git bounds names.
	max := int64(c.cfg.MaxRefs+1)*2*400 + 4096
	out, err := c.git.Run(ctx, c.withAccess(a, git.Call{Args: append([]string{"ls-remote", "--symref", "--end-of-options", a.URL}, refs...), Max: max, Lock: lock}))
	if err != nil {
		return advertisement{}, err
	}
	return parseAdvertisement(out, c.cfg.MaxRefs)
}

// parseAdvertisement parses the output of ls-remote --symref.
func parseAdvertisement(out []byte, maxRefs int) (advertisement, error) {
	a := advertisement{refs: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		value, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !ok {
			return a, api.Errorf(api.KindInternal, "git ls-remote printed unexpected output: %q", git.Sanitize(line, 200))
		}
		target, symbolic := strings.CutPrefix(value, "ref: ")
		switch {
		case symbolic:
			if name == "HEAD" && strings.HasPrefix(target, "refs/heads/") && git.CheckRevision(target) == nil {
				a.branch = target
			}
		case !git.IsHash(value):
			return a, api.Errorf(api.KindInternal, "git ls-remote printed unexpected output: %q", git.Sanitize(line, 200))
		case name == "HEAD":
			a.head = value
		case strings.HasSuffix(name, "^{}"): // what a tag points to
		case strings.HasPrefix(name, "refs/heads/"), strings.HasPrefix(name, "refs/tags/"):
			a.refs[name] = value
			if len(a.refs) > maxRefs {
				return a, api.Errorf(api.KindExhausted, "the remote has more than %d branches and tags", maxRefs)
			}
		}
	}
	if a.head == "" || a.refs[a.branch] == "" {
		a.branch = ""
	}
	return a, nil
}
