package outgoing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"hortus.dev/api"
	"hortus.dev/api/secrets"
	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/load"
	"hortus.dev/cmd/hortus-bench/program"
)

// Names of lanes.
const (
	laneDirect     = "direct"
	laneInside     = "inside" // client and server in one sandbox
	lanePassed     = "passed through"
	laneTerminated = "terminated"
	laneBrokered   = "with a secret" // terminated, and the host puts a secret into each request
)

// bearer is the variable with the placeholder of the secret.
const bearer = "HORTUS_BENCH_TOKEN"

const rowEgress = "egress: "

// Limits of the jobs of the measurement.
const (
	egressRounds = 5
	// maxJob is the maximum number of samples of a job.
	maxJob = 2000
	// bodyBytes are what is read in large bodies in a job.
	bodyBytes = 64 << 20
)

// Measure measures connections that leave a sandbox, compared with those of a process of the
// host that are direct or through a proxy. The same client and server take part in each. A client
// has resolved the server's name before.
func Measure(ctx context.Context, cfg Config) error {
	r := &run{cfg}
	dir, err := os.MkdirTemp("", "hortus-bench-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // the users of proxies reach their own below
	}
	if err != nil {
		return internal(err)
	}
	defer os.RemoveAll(dir)
	caFile := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(caFile, r.Outside.CA, 0o644); err != nil {
		return internal(err)
	}
	port, stop, err := serveLoad(ctx, r.Outside.listen)
	if err != nil {
		return err
	}
	defer stop()
	// A flood has a server of its own: what it slows down is what both sandboxes share.
	floodPort, stop, err := serveLoad(ctx, r.Outside.listen)
	if err != nil {
		return err
	}
	defer stop()
	client, err := startLoad(ctx, "drive")
	if err != nil {
		return err
	}
	defer client.Close()
	lanes := []*lane{{name: laneDirect, ask: asks(client), job: load.Job{To: at("127.0.0.1", port), Name: nameTerminated}}}
	rivals, end := proxies(ctx, dir, caFile, asks(client), port)
	defer end()
	for _, l := range rivals {
		if l.ask == nil {
			r.Report(figure.Row{Name: rowEgress + l.name, Note: l.name + ": " + l.note})
			continue
		}
		lanes = append(lanes, l)
	}
	o := servers{port: port, floodPort: floodPort}
	var neighbours []*neighbour
	for _, backend := range r.Backends {
		n, err := r.neighbour(ctx, backend, o)
		if cerr := ctx.Err(); cerr != nil {
			return cerr
		}
		if err != nil {
			r.Report(figure.Missing(rowEgress+lanePassed, backend, err.Error()))
			continue
		}
		defer n.end()
		neighbours = append(neighbours, n)
		lanes = append(lanes, n.lanes...)
	}
	if err := r.carry(ctx, lanes); err != nil {
		return err
	}
	flooder, err := startLoad(ctx, "drive")
	if err != nil {
		return err
	}
	defer flooder.Close()
	for _, l := range lanes {
		if l.name == laneDirect || l.name == squid.name {
			f := *l
			f.ask, f.job.To = asks(flooder), at("127.0.0.1", floodPort)
			if err := r.fairness(ctx, l, &f); err != nil {
				return err
			}
		}
	}
	for _, n := range neighbours {
		if err := r.floodFrom(ctx, n, o); err != nil {
			return err
		}
	}
	return nil
}

// egressJob is a job of each round.
type egressJob struct {
	name  string
	job   load.Job
	lanes []string // empty means all
	// rounds is in how many of the rounds it is carried out.
	rounds int
}

// egressJobs returns the jobs for a number of samples: with few samples there are few
// connections at once.
func egressJobs(n, rounds int) (out []egressJob) {
	each := min(max(n/rounds, 1), maxJob)
	body := int64(bodyBytes)
	if n < 50 {
		body /= 32
	}
	for _, k := range []int{1, 50, 500} {
		if k > 10*n {
			break
		}
		suffix, in := fmt.Sprintf(", %d at once", k), rounds
		if k == 500 {
			in = min(2, rounds) // each takes seconds
		}
		out = append(out,
			egressJob{"new TLS connection" + suffix, load.Job{Do: load.Connect, At: k, N: max(each, k)}, nil, in},
			egressJob{"small request" + suffix, load.Job{Do: load.Request, At: k, N: max(each, k)}, []string{laneDirect, mitmproxy.name, laneTerminated, laneBrokered}, in},
			egressJob{"large body" + suffix, load.Job{Do: load.Body, At: k, N: k, Bytes: body / int64(k)}, nil, in})
	}
	return append(out, egressJob{"lookup of a name", load.Job{Do: load.Lookup, At: 1, N: each}, []string{lanePassed}, rounds})
}

// carry carries out each job on each lane in turn, and reports.
func (r *run) carry(ctx context.Context, lanes []*lane) error {
	rounds := min(egressRounds, r.N)
	jobs := egressJobs(r.N, rounds)
	for i := range rounds {
		for j, job := range jobs {
			r.Step("", i*len(jobs)+j, rounds*len(jobs))
			if i >= job.rounds {
				continue
			}
			for _, l := range lanes {
				if len(job.lanes) > 0 && !slices.Contains(job.lanes, l.name) {
					continue
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				res, err := l.do(ctx, job.job)
				if err != nil {
					return err
				}
				l.add(job, res)
			}
		}
	}
	r.Step("", rounds*len(jobs), rounds*len(jobs))
	for _, job := range jobs {
		for _, l := range lanes {
			if l.results[job.name] != nil {
				r.Report(r.row(l, job, lanes))
			}
		}
	}
	return nil
}

// add keeps a result.
func (l *lane) add(job egressJob, res load.Result) {
	if l.results == nil {
		l.results = map[string]*results{}
	}
	into := l.results[job.name]
	if into == nil {
		into = &results{}
		l.results[job.name] = into
	}
	into.cpu += res.CPU
	into.count += res.Count
	into.bytes += res.Bytes
	for _, t := range res.Times {
		into.times = append(into.times, time.Duration(t)*time.Microsecond)
	}
	if s := res.Took.Seconds(); s > 0 {
		into.rates = append(into.rates, float64(res.Bytes)/1e6/s)
	}
}

// row returns the row of a job.
func (r *run) row(l *lane, job egressJob, lanes []*lane) figure.Row {
	got := l.results[job.name]
	row := figure.Row{Name: rowEgress + job.name + ", " + l.name, Backend: l.backend, Note: l.note}
	var base *results
	for _, other := range lanes {
		if other.name == l.against && (other.backend == "" || other.backend == l.backend) {
			base = other.results[job.name]
		}
	}
	if l.cpu != nil {
		row.Note = join(got.used(job.job.Do), row.Note)
	}
	if job.job.Do == load.Body {
		row.N, row.Unit, row.Value = len(got.rates), "MB/s", middle(got.rates)
		if base != nil {
			row.Note = join(fmt.Sprintf("%.2fx of %s (%.0f MB/s)", row.Value/middle(base.rates), l.against, middle(base.rates)), row.Note)
		}
		return row
	}
	if base == nil || len(base.times) == 0 {
		row.Times(got.times, 0)
		return row
	}
	var of figure.Row
	of.Times(base.times, 0)
	row.Baseline = rowEgress + job.name + ", " + l.against
	row.Times(got.times, of.P50MS)
	row.Note = join(fmt.Sprintf("p99 %.2fx of its %.3f ms", row.P99MS/of.P99MS, of.P99MS), row.Note)
	return row
}

// used says what carrying a sample took.
func (r *results) used(do string) string {
	if do == load.Body {
		return fmt.Sprintf("%.2f ms of processor time for each MB", figure.MS(r.cpu)/(float64(max(r.bytes, 1))/1e6))
	}
	return fmt.Sprintf("%.2f ms of processor time for each", figure.MS(r.cpu)/float64(max(r.count, 1)))
}

func join(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}

// middle returns the median, or 0 of none.
func middle(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return math.Round(sorted[(len(sorted)-1)/2]*100) / 100
}

// servers are the ports of the servers.
type servers struct{ port, floodPort int }

// neighbour is a sandbox with a client.
type neighbour struct {
	backend string
	lanes   []*lane
	ends    []func()
}

func (n *neighbour) end() {
	for _, e := range slices.Backward(n.ends) {
		e()
	}
}

// client makes a sandbox that may connect to the server, with a client in it.
func (r *run) client(ctx context.Context, n *neighbour, o servers, cpus float64) (id api.SandboxID, t *program.Talk, err error) {
	for _, report := range r.Sandboxes.Backends.Reports(ctx) {
		if a, ok := report.Has(api.CapEgress); !ok && report.Backend == n.backend {
			return "", nil, errors.New(a.Reason)
		}
	}
	grant, remove, err := r.Secret(ctx, secrets.Binding{Host: nameBrokered, Port: o.port, In: secrets.Place{Kind: secrets.InHeader, Name: "Authorization"}}, load.Token)
	if err != nil {
		return "", nil, err
	}
	n.ends = append(n.ends, remove)
	grant.Env = bearer
	if id, err = r.Create(ctx, n.backend, cpus, grant); err != nil {
		return "", nil, err
	}
	n.ends = append(n.ends, func() { r.Kill(id) })
	if err := r.loadIn(ctx, id); err != nil {
		return "", nil, err
	}
	rule := func(name string, class api.EgressClass) api.EgressRule {
		return api.EgressRule{Action: api.EgressAllow, Host: name, Ports: fmt.Sprintf("%d,%d", o.port, o.floodPort), Class: class, Private: true}
	}
	policy := api.EgressPolicy{MaxConnections: 2048, Rules: []api.EgressRule{rule(namePassed, api.EgressPassthrough), rule(nameTerminated, api.EgressWeb), rule(nameBrokered, api.EgressWeb)}}
	if _, err := r.Sandboxes.Policies.SetEgress(ctx, id, policy); err != nil {
		return "", nil, err
	}
	if t, err = r.Talk(ctx, id, []string{loadPath, "drive"}); err != nil {
		return "", nil, err
	}
	n.ends = append(n.ends, t.Close)
	return id, t, nil
}
