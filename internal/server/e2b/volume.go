package e2b

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"hortus.dev/api"
	"hortus.dev/internal/server/forward"
)

// Volumes is what the server asks of volumes. Create, List, Get and Remove are for the principal of their context;
// another account's volume is not found. The others are for who showed the volume's token.
type Volumes interface {
	Create(ctx context.Context, name string) (api.Volume, error)
	List(ctx context.Context) ([]api.Volume, error)
	Get(ctx context.Context, id api.VolumeID) (api.Volume, error)
	Remove(ctx context.Context, id api.VolumeID) error

	// Count counts a request for the files of a volume, and refuses too many at a time.
	Count(ctx context.Context, id api.VolumeID) error
	Stat(ctx context.Context, id api.VolumeID, path string) (api.VolumeEntry, error)
	Entries(ctx context.Context, id api.VolumeID, path string, depth int) ([]api.VolumeEntry, error)
	MakeDir(ctx context.Context, id api.VolumeID, path string, owner api.VolumeOwner, parents bool) (api.VolumeEntry, error)
	SetOwner(ctx context.Context, id api.VolumeID, path string, owner api.VolumeOwner) (api.VolumeEntry, error)
	// The caller of Read closes the file. A length of -1 is not known.
	Read(ctx context.Context, id api.VolumeID, path string) (io.ReadCloser, api.VolumeEntry, error)
	Write(ctx context.Context, id api.VolumeID, path string, owner api.VolumeOwner, replace bool, length int64, body io.Reader) (api.VolumeEntry, error)
	Delete(ctx context.Context, id api.VolumeID, path string) error
}

// VolumeTokens makes and checks the tokens of the files of volumes. Each is for one volume.
type VolumeTokens interface {
	Volume(id string) string
	CheckVolume(id, got string) bool
}

// volumes serves requests about volumes and their files.
type volumes struct {
	Volumes
	tokens  VolumeTokens
	forward *forward.Forwarder
}

func (d volumes) register(to *router) {
	to.handle("GET /volumes", d.list)
	to.handle("POST /volumes", placed(d.forward, to, d.create, func([]byte) forward.Need { return forward.Need{Kind: forward.Volume} }))
	to.handle("GET /volumes/{id}", d.get)
	to.handle("DELETE /volumes/{id}", d.remove)
}

// contentPath begins the paths of files, whose requests have the token of a volume and no API key.
const contentPath = "/volumecontent/"

func (d volumes) registerFiles(to *router) {
	const at = contentPath + "{id}/"
	to.handle("GET "+at+"dir", d.authorized(d.entries), "path", "depth")
	to.handle("POST "+at+"dir", d.authorized(d.makeDir), "path", "uid", "gid", "mode", "force")
	to.handle("GET "+at+"path", d.authorized(d.stat), "path")
	to.handle("PATCH "+at+"path", d.authorized(d.setOwner), "path")
	to.handle("DELETE "+at+"path", d.authorized(d.removePath), "path")
	to.handle("GET "+at+"file", d.authorized(d.read), "path")
	to.handle("PUT "+at+"file", d.authorized(d.write), "path", "uid", "gid", "mode", "force")
	to.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { to.fail(w, r, noRoute(r)) })
}

// wireVolume is a volume as the wire has it. A list has no tokens.
type wireVolume struct {
	VolumeID string `json:"volumeID"`
	Name     string `json:"name"`
	Token    string `json:"token,omitempty"`
}

func (d volumes) withToken(v api.Volume) wireVolume {
	return wireVolume{string(v.ID), v.Name, d.tokens.Volume(string(v.ID))}
}

func (d volumes) create(w http.ResponseWriter, r *http.Request) error {
	var in struct {
		Name string `json:"name"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	v, err := d.Create(r.Context(), in.Name)
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, d.withToken(v))
}

func (d volumes) list(w http.ResponseWriter, r *http.Request) error {
	all, err := d.List(r.Context())
	if err != nil {
		return err
	}
	out := make([]wireVolume, 0, len(all))
	for _, v := range all {
		out = append(out, wireVolume{VolumeID: string(v.ID), Name: v.Name})
	}
	return answer(w, http.StatusOK, out)
}

func (d volumes) get(w http.ResponseWriter, r *http.Request) error {
	v, err := d.Get(r.Context(), idOf(r))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, d.withToken(v))
}

// remove removes a volume. If the node with its files does not answer, the row is removed here, and the files when that node starts.
func (d volumes) remove(w http.ResponseWriter, r *http.Request) error {
	if done, err := d.elsewhere(w, r, true); done || err != nil {
		return err
	}
	return done(w, d.Remove(r.Context(), idOf(r)))
}

// elsewhere has the node with the files of a volume serve a request; see forward.About.
func (d volumes) elsewhere(w http.ResponseWriter, r *http.Request, stored bool) (bool, error) {
	return d.forward.Pass(w, r, forward.About{Door: forward.DoorE2B, Kind: forward.Volume, ID: string(idOf(r)), Stored: stored})
}

func idOf(r *http.Request) api.VolumeID { return api.VolumeID(r.PathValue("id")) }

// authorized serves requests with the token of the volume. Without it a volume that does not exist is no other than
// one that does.
func (d volumes) authorized(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		given := r.Header.Values("Authorization")
		ok := len(given) == 1
		if ok {
			scheme, token, _ := strings.Cut(given[0], " ")
			ok = strings.EqualFold(scheme, "Bearer") && d.tokens.CheckVolume(r.PathValue("id"), token)
		}
		if !ok {
			return api.Errorf(api.KindUnauthenticated, "the request must have the token of the volume in the header Authorization: Bearer TOKEN")
		}
		if done, err := d.elsewhere(w, r, false); done || err != nil {
			return err
		}
		if err := d.Count(r.Context(), idOf(r)); err != nil {
			return err
		}
		return h(w, r)
	}
}

// pathOf returns the parameter with the path of an entry.
func pathOf(r *http.Request) string { return r.URL.Query().Get("path") }

// ownerOf reads the parameters with an owner and a mode, and force.
func ownerOf(q url.Values) (owner api.VolumeOwner, force bool, err error) {
	for _, p := range []struct {
		name string
		to   **uint32
		most int64
	}{{"uid", &owner.UID, math.MaxUint32}, {"gid", &owner.GID, math.MaxUint32}, {"mode", &owner.Mode, 0o777}} {
		if q.Get(p.name) == "" {
			continue
		}
		n, err := number(q, p.name, 0, 0, p.most)
		if err != nil {
			return owner, false, err
		}
		v := uint32(n)
		*p.to = &v
	}
	if raw := q.Get("force"); raw != "" {
		if force, err = strconv.ParseBool(raw); err != nil {
			err = api.Errorf(api.KindInvalid, `parameter "force": %.40q is neither true nor false`, raw)
		}
	}
	return owner, force, err
}

func (d volumes) entries(w http.ResponseWriter, r *http.Request) error {
	depth, err := number(r.URL.Query(), "depth", 1, 1, 100)
	if err != nil {
		return err
	}
	all, err := d.Entries(r.Context(), idOf(r), pathOf(r), int(depth))
	if err != nil {
		return err
	}
	if all == nil {
		all = []api.VolumeEntry{}
	}
	return answer(w, http.StatusOK, all)
}

// answerEntry answers with an entry unless a call failed.
func answerEntry(w http.ResponseWriter, status int, e api.VolumeEntry, err error) error {
	if err != nil {
		return err
	}
	return answer(w, status, e)
}

func (d volumes) makeDir(w http.ResponseWriter, r *http.Request) error {
	owner, force, err := ownerOf(r.URL.Query())
	if err != nil {
		return err
	}
	e, err := d.MakeDir(r.Context(), idOf(r), pathOf(r), owner, force)
	return answerEntry(w, http.StatusCreated, e, err)
}

func (d volumes) stat(w http.ResponseWriter, r *http.Request) error {
	e, err := d.Stat(r.Context(), idOf(r), pathOf(r))
	return answerEntry(w, http.StatusOK, e, err)
}

func (d volumes) setOwner(w http.ResponseWriter, r *http.Request) error {
	var owner api.VolumeOwner
	if err := decode(w, r, &owner); err != nil {
		return err
	}
	e, err := d.SetOwner(r.Context(), idOf(r), pathOf(r), owner)
	return answerEntry(w, http.StatusOK, e, err)
}

func (d volumes) removePath(w http.ResponseWriter, r *http.Request) error {
	return done(w, d.Delete(r.Context(), idOf(r), pathOf(r)))
}

// idle is how long a client may take for the next part of a file.
const idle = time.Minute

// punctual ends a transfer whose client sends or reads nothing for too long.
type punctual struct {
	r    io.Reader
	next func(time.Time) error
}

// Read implements io.Reader.
func (p punctual) Read(b []byte) (int, error) {
	_ = p.next(time.Now().Add(idle)) // where the connection has deadlines
	return p.r.Read(b)
}

func (d volumes) read(w http.ResponseWriter, r *http.Request) error {
	f, e, err := d.Read(r.Context(), idOf(r), pathOf(r))
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	rc := http.NewResponseController(w)
	if e.Size > 0 {
		w.Header().Set("Content-Length", strconv.FormatInt(e.Size, 10))
	} else {
		// An empty answer of known length is none to the SDKs, which then have no stream.
		w.WriteHeader(http.StatusOK)
		_ = rc.Flush()
	}
	if n, err := io.Copy(w, punctual{io.LimitReader(f, e.Size), rc.SetWriteDeadline}); err != nil || n != e.Size {
		panic(http.ErrAbortHandler) // the head of the answer is sent: only the end of the connection says it
	}
	return nil
}

func (d volumes) write(w http.ResponseWriter, r *http.Request) error {
	owner, force, err := ownerOf(r.URL.Query())
	if err != nil {
		return err
	}
	body := punctual{r.Body, http.NewResponseController(w).SetReadDeadline}
	e, err := d.Write(r.Context(), idOf(r), pathOf(r), owner, force, r.ContentLength, body)
	return answerEntry(w, http.StatusCreated, e, err)
}
