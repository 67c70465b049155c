package workdir

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"hortus.dev/api"
	"hortus.dev/internal/storage/workspace"
)

const (
	// interval is the time between two looks at the file system.
	interval = 50 * time.Millisecond
	// maxDelay is the maximum time between two measurements of a workspace.
	maxDelay = 2 * time.Second
	// restFactor times its own duration is the minimum time between two measurements.
	restFactor = 4
	// maxFailures is the maximum number of failed measurements in a row.
	maxFailures = 5
	// inodeBytes is the size of disk for which a sandbox may have one inode.
	inodeBytes = 4 << 10
)

// Watch waits until a durable workspace exceeds its quota, or limit bytes if it has none, until its
// account exceeds its ceiling and the workspace grows, or until the account has to pay for the free
// space of the host's disk, which fell below the floor. It returns the cause, or "" if ctx ends first.
//
// A look at the file system is cheap and tells how much all sandboxes together have
// written. The workspace itself is measured only if that could have used up what was left of a
// limit or half of the floor, or after maxDelay.
func (m *Mounter) Watch(ctx context.Context, d *Dir, id api.SandboxID, limit int64, unlinked Unlinked) string {
	full := api.CauseDisk
	if q := d.upper.Quota(); q > 0 {
		limit, full = q, api.CauseQuota
	}
	most := workspace.Usage{Bytes: limit, Files: Inodes(limit)}
	account, ledger := d.upper.Account(), m.Space.Ledger()
	defer ledger.Run(account)()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var (
		used   workspace.Usage // at the last measurement
		since  workspace.Usage // of the file system, at the last measurement
		next   time.Time       // earliest time of the next measurement
		due    time.Time       // latest time of the next measurement
		failed int
		first  = true
	)
	for {
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(d.upper.Dir().Fd()), &st); err != nil {
			m.Log.Error("cannot read the free space of the host's disk", "sandbox", id, "error", err)
			return api.CauseFull
		}
		if why, pays := ledger.Pays(ctx, account, m.Space.Level(&st)); pays {
			m.Log.Warn("sandbox ended to keep space free on the host's disk", "sandbox", id, "reason", m.Space.ShortOf(&st, 0), "account", why)
			return api.Because(api.CauseFull, why)
		}
		now := time.Now()
		all := workspace.Usage{Bytes: int64(st.Blocks-st.Bfree) * st.Bsize, Files: int64(st.Files - st.Ffree)}
		grown := workspace.Usage{Bytes: used.Bytes + all.Bytes - since.Bytes, Files: used.Files + all.Files - since.Files}
		written, _ := m.Space.Floor(&st)
		written = min(written/2, ledger.Left(account))
		if due.IsZero() || now.After(due) || (grown.Over(most) != "" || grown.Bytes-used.Bytes > written) && now.After(next) {
			got, err := d.upper.Measure(ctx, most)
			if ctx.Err() != nil {
				return ""
			}
			if err == nil && got.Over(most) == "" {
				got.Bytes += unlinked.bytes(most.Bytes - got.Bytes)
			}
			why := got.Over(most)
			switch {
			case err == nil:
				failed = 0
			case errors.Is(err, workspace.ErrDeep):
				why = err.Error()
			default: // perhaps a directory was changed meanwhile
				if failed++; failed >= maxFailures {
					why = "cannot measure its size: " + err.Error()
				}
			}
			if why != "" {
				m.Log.Info("sandbox ended at its disk limit", "sandbox", id, "workspace", d.upper.ID(), "limit", full, "has", why)
				return full
			}
			if err == nil {
				d.upper.Stores(got.Bytes)
				if why := m.above(ctx, account, got.Bytes > used.Bytes && !first); why != "" {
					m.Log.Info("sandbox ended at the ceiling of its account", "sandbox", id, "workspace", d.upper.ID(), "has", why)
					return api.Because(api.CauseAccount, why)
				}
				first = false
			}
			took := time.Since(now)
			used, since = got, all
			next = time.Now().Add(restFactor * took)
			due = time.Now().Add(max(maxDelay, 2*restFactor*took))
			if failed > 0 {
				due = next // its size is not known
			}
		}
		select {
		case <-ctx.Done():
			return ""
		case <-tick.C:
		}
	}
}

// above returns why an account whose workspace grew, or not, is above its ceiling; "" if it is not.
func (m *Mounter) above(ctx context.Context, account string, grew bool) string {
	ledger := m.Space.Ledger()
	most := ledger.Ceiling(account)
	if most == 0 || !grew {
		return ""
	}
	used, err := ledger.Used(ctx, account)
	if err != nil && ctx.Err() == nil {
		m.Log.Error("cannot measure what an account stores", "account", account, "error", err)
	}
	if err != nil || used <= most {
		return ""
	}
	return fmt.Sprintf("account %q stores %d bytes, its ceiling is %d", account, used, most)
}

// Inodes is the maximum number of files on a disk of a size.
func Inodes(bytes int64) int64 { return max(bytes/inodeBytes, 1024) }
