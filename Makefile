# The commands of the project. Everything that a build makes lies in bin/.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X hortus.dev/internal/platform/version.release=$(VERSION)
# GVISOR runs the toolchain in gVisor's module as it is changed, with a release's flags.
GVISOR   = CGO_ENABLED=0 GOFLAGS="-trimpath -modfile=../../bin/gvisor.mod" $(GO) -C cmd/hortus-runsc

.PHONY: build release check test soak test-vm pictures race kubernetes lint fuzz bench wasm-javascript clean

# build makes bin/hortus with the small guest and gVisor embedded. gVisor is a module
# of its own: its first build takes a minute or two.
build: export CGO_ENABLED = 0
build:
	$(GO) build -trimpath -ldflags '-s -w' -o internal/platform/embedded/guest/hortus-guest ./cmd/hortus-guest
	$(GO) -C cmd/hortus-runsc run ./patch ../../bin
	$(GVISOR) build -ldflags '-s -w' -o $(CURDIR)/bin/hortus-runsc .
	$(GO) run ./cmd/hortus-pack bin/hortus-runsc internal/platform/embedded/guest/hortus-runsc.packed
	$(GO) build -trimpath -tags embedguest,embedrunsc -ldflags '$(LDFLAGS)' -o bin/hortus ./cmd/hortus
	@ls -l bin/hortus internal/platform/embedded/guest/hortus-* | awk '{print $$5, $$9}'

# release makes dist/: archives, Debian packages and a container file for Linux, clients
# for macOS and Windows, and their sums. bash .ci/release proves that two builds are the
# same.
release:
	$(GO) run ./cmd/hortus-release -version $(VERSION) -out dist
	@cat dist/SHA256SUMS

# check runs the tests of pure packages, T0: no sandbox, no daemon, no interpreter.
check:
	$(GO) test $$($(GO) list ./... | grep -v -E '$(REAL)')
REAL = /test/|/client$$|/cmd/hortus-bench|/internal/agent$$|/internal/(agent/(artifact|loop|observe|tool|turn|model/offline)|backend|daemon|guest|repository/git|sandbox|storage/image|task/repo)(/|$$)

# test runs T1: everything that this machine can test in minutes.
test:
	$(GO) test ./...
	$(GO) -C test/charts test ./...
	$(GO) -C cmd/hortus-runsc run ./patch ../../bin
	$(GVISOR) test ./... gvisor.dev/gvisor/pkg/sentry/pgalloc gvisor.dev/gvisor/pkg/sentry/mm gvisor.dev/gvisor/pkg/sentry/fsimpl/tmpfs gvisor.dev/gvisor/pkg/state gvisor.dev/gvisor/pkg/state/wire

# soak runs T2: kill storms, load, every toolchain, large transfers, the release twice,
# the vendors' SDKs of models, go vet of the other modules, the emulated machine. It takes more than an hour.
soak: build
	HORTUS_TEST_TIER=soak $(GO) test -count=1 -timeout 2h ./...
	$(GO) -C test/sdks test -count=1 ./...
	$(GO) -C test/charts vet ./...
	$(GVISOR) vet ./...
	bash .ci/release
	$(GO) run ./test/vm

# test-vm boots a stock Debian kernel under QEMU's software emulation and runs the
# suites there on cgroup v2, as root and as an ordinary user: docs/testing.md.
# VM='^limits/' runs the steps with such names only.
VM ?=
test-vm: build
	$(GO) run ./test/vm -run '$(VM)'

# kubernetes starts a Kubernetes cluster of one node on this machine, installs the chart there, and runs the
# suites of the backend kubernetes: docs/testing.md. Its first run builds Kubernetes, which takes 15 to 30 minutes.
# KUBERNETES='-run TestChart' chooses.
kubernetes: build
	bash test/kubernetes/cluster test $(KUBERNETES)

# pictures writes docs/pictures: README's terminal, and the console in a browser.
pictures:
	$(GO) test -count=1 ./test/story -run 'TestPicture$$' -update
	$(GO) test -count=1 ./test/console -run 'TestPictures$$' -update

race:
	$(GO) test -race ./...

lint:
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) vet ./...
	$(GO) -C test/charts vet ./...
	$(GO) -C cmd/hortus-runsc run ./patch ../../bin
	$(GVISOR) vet ./...

# fuzz runs every fuzz test for a while; FUZZTIME=10m for a long one.
FUZZTIME ?= 20s
fuzz:
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
	  done; done

# bench measures this host: docs/performance.md. BENCH='-n 400 exec' chooses.
BENCH ?=
bench: build
	$(GO) build -trimpath -tags embedguest,embedrunsc -ldflags '$(LDFLAGS)' -o bin/hortus-bench ./cmd/hortus-bench
	bin/hortus-bench $(BENCH)

# wasm-javascript builds the embedded JavaScript interpreter again, from the commit that its package
# names, with Debian's clang, lld, wasi-libc and libclang-rt-dev-wasm32 of version 14. The result has
# the digest of the package, or the build fails.
wasm-javascript:
	bash internal/backend/wasm/javascript/build bin/quickjs

clean:
	rm -rf bin internal/platform/embedded/guest/hortus-*
