package outgoing

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"hortus.dev/cmd/hortus-bench/figure"
	"hortus.dev/cmd/hortus-bench/footprint"
	"hortus.dev/cmd/hortus-bench/load"
)

const (
	// floodFor is how long a sandbox opens connections, floodAt how many at once.
	floodFor = 3 * time.Second
	floodAt  = 64
)

// neighbour makes a sandbox of a backend with its lanes.
func (r *run) neighbour(ctx context.Context, backend string, o servers) (_ *neighbour, err error) {
	n := &neighbour{backend: backend}
	defer func() {
		if err != nil {
			n.end()
		}
	}()
	id, t, err := r.client(ctx, n, o, float64(runtime.NumCPU()))
	if err != nil {
		return nil, err
	}
	own, err := r.Talk(ctx, id, []string{loadPath, "serve"})
	if err != nil {
		return nil, err
	}
	n.ends = append(n.ends, own.Close)
	var inside load.Served
	if err := own.Call(ctx, r.Outside.listen, &inside); err != nil {
		return nil, err
	}
	n.lanes = []*lane{
		{name: laneInside, backend: backend, against: laneDirect, ask: asks(t), job: load.Job{To: at("127.0.0.1", inside.Port), Name: namePassed}, note: "client and server in the sandbox"},
		{name: lanePassed, backend: backend, against: squid.name, ask: asks(t), job: load.Job{To: at(namePassed, o.port), Name: namePassed}, cpu: r.carriedCPU(id), client: true},
		{name: laneTerminated, backend: backend, against: mitmproxy.name, ask: asks(t), job: load.Job{To: at(nameTerminated, o.port), Name: nameTerminated}, cpu: r.carriedCPU(id), client: true},
		{name: laneBrokered, backend: backend, against: laneTerminated, ask: asks(t), job: load.Job{To: at(nameBrokered, o.port), Name: nameBrokered, Bearer: bearer}, cpu: r.carriedCPU(id), client: true},
	}
	return n, nil
}

// floodFrom makes another sandbox of a backend that floods.
func (r *run) floodFrom(ctx context.Context, n *neighbour, o servers) error {
	other := &neighbour{backend: n.backend}
	defer other.end()
	_, t, err := r.client(ctx, other, o, 1)
	if err != nil {
		return err
	}
	l := n.lanes[1]
	flood := &lane{name: "flood", ask: asks(t), job: l.job}
	flood.job.To = at(namePassed, o.floodPort)
	return r.fairness(ctx, l, flood)
}

// fairness measures new connections on a lane while another client opens them as fast as it can,
// and without that, in turn. What both have in common is what carries them and the processors.
func (r *run) fairness(ctx context.Context, l, flood *lane) error {
	job := load.Job{Do: load.Connect, At: 1, N: min(max(r.N/4, 5), maxJob)}
	duration := floodFor
	if r.N < 50 {
		duration = floodFor / 10
	}
	var alone, beside []time.Duration
	var before, most float64
	count := 0
	rounds := min(r.N, 3)
	for i := range rounds {
		r.Step(l.backend, i, rounds)
		res, err := l.do(ctx, job)
		if err != nil {
			return err
		}
		alone = appendTimes(alone, res)
		if before == 0 {
			if before, err = footprint.Resident(); err != nil {
				return err
			}
		}
		var flooding sync.WaitGroup
		var flooded load.Result
		var ferr error
		over := make(chan struct{})
		flooding.Go(func() {
			defer close(over)
			flooded, ferr = flood.do(ctx, load.Job{Do: load.Connect, At: floodAt, For: duration})
		})
		err = func() error {
			defer flooding.Wait()
			for {
				job := job
				job.N = 1
				res, err := l.do(ctx, job)
				if err != nil {
					return err
				}
				if m, err := footprint.Resident(); err == nil {
					most = max(most, m)
				}
				select {
				case <-over:
					return nil
				default:
					beside = appendTimes(beside, res)
				}
			}
		}()
		if err == nil {
			err = ferr
		}
		if err != nil {
			return err
		}
		count += flooded.Count
	}
	r.Step(l.backend, rounds, rounds)
	rows := [2]figure.Row{
		{Name: rowEgress + "undisturbed, " + l.name, Backend: l.backend},
		{Name: rowEgress + "beside a flood, " + l.name, Backend: l.backend, Baseline: rowEgress + "undisturbed, " + l.name,
			Note: fmt.Sprintf("another client opened %d at once, %.0f a second", floodAt, float64(count)/(duration.Seconds()*float64(rounds)))},
	}
	rows[0].Times(alone, 0)
	rows[1].Times(beside, rows[0].P50MS)
	r.Report(rows[0])
	r.Report(rows[1])
	if l.backend == "" {
		return nil
	}
	r.Report(figure.Row{Name: rowEgress + "resident memory beside a flood", Backend: l.backend, N: count, Unit: "MB", Value: most - before, Before: before, After: most,
		Note: fmt.Sprintf("more of the daemon, at most, than %.0f MB before", before)})
	return nil
}

func appendTimes(to []time.Duration, res load.Result) []time.Duration {
	for _, t := range res.Times {
		to = append(to, time.Duration(t)*time.Microsecond)
	}
	return to
}
