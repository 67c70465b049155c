package remote

import (
	"context"
	"fmt"

	"hortus.dev/api"
	"hortus.dev/internal/guest/birth"
)

// script starts the guest from the directory $1, and returns when it listens.
const script = `set -e
cd %s
gzip -dc guest.gz > hortus-guest
chmod 700 hortus-guest
rm guest.gz
if ! [ -w /workspace ]; then
	sudo -n mkdir -p /workspace
	sudo -n chown "$(id -u):$(id -g)" /workspace
fi
export HOME="${HOME:-/tmp}"
setsid ./hortus-guest %s config.json < /dev/null > log 2>&1 &
for i in $(seq 600); do
	if grep -q '^%s$' log; then exit 0; fi
	if ! kill -0 $! 2> /dev/null; then break; fi
	sleep 0.05
done
tail -c 500 log >&2
exit 1
`

// Upload boots a guest in a box of a service that has none: it uploads the program and starts it.
func Upload(ctx context.Context, s Uploader, b Box, g Guest) error {
	program, err := g.Program()
	if err != nil {
		return err
	}
	dir := "/tmp/.hortus-" + string(g.Sandbox)
	for _, f := range []struct {
		name    string
		content []byte
	}{{"guest.gz", program}, {"config.json", g.Config}} {
		if err := s.Upload(ctx, b, dir+"/"+f.name, f.content); err != nil {
			return err
		}
	}
	if err := s.Run(ctx, b, fmt.Sprintf(script, dir, birth.ArgRemote, birth.RemoteReady)); err != nil {
		return api.Errorf(api.KindOf(err), "start the guest: %w", err).
			WithHint("the service's template needs bash, gzip, setsid, tar, GNU find, and sudo or a writable /workspace")
	}
	return nil
}
