# fitout: build, test, measure, show. "make help" lists the targets.

VERSION ?= $(shell git describe --tags --dirty 2>/dev/null || echo 0.1.0-dev)
PREFIX  ?= /usr/local
LDFLAGS  = -s -w -X main.version=$(VERSION)
export CGO_ENABLED = 0
# The Debian packages that the tests, the benchmarks and the demo use.
PACKAGES = qemu-system-x86 seabios squashfs-tools busybox-static kmod e2fsprogs docker-registry apache2-utils \
           pciutils cpio gcc libc6-dev make libelf1 checkpolicy rpm dnf xz-utils bzip2 time ca-certificates git \
           mmdebstrap ostree
# What fitout is measured beside.
BENCH_PACKAGES = skopeo umoci openssl
# Go's "./..." leaves testdata out, so the packages there that have tests are
# named: those that start machines, and the others.
TESTED   = $(patsubst %/,./%,$(sort $(dir $(wildcard testdata/*/*_test.go testdata/*/*/*_test.go))))
E2E      = $(foreach dir,$(TESTED),$(if $(shell grep -ls '"fitout/testdata/vm"' $(dir)/*.go)$(findstring testdata/vm,$(dir)),$(dir)))
RIG      = $(filter-out $(E2E),$(TESTED))
# How long one fuzz target runs.
FUZZTIME ?= 10m

.PHONY: help build test test-full unit e2e bench peers fuzz lint demo screens install deps clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile | expand -t 14

build: ## build/fitout, one static binary
	go build -trimpath -ldflags '$(LDFLAGS)' -o build/fitout ./cmd/fitout

test: deps lint unit e2e ## everything that CI runs, the virtual machine included

unit: deps ## all tests that need no machine
	go test -timeout 20m ./... $(RIG)

e2e: deps ## the tests on virtual machines
	go test -p 1 -timeout 40m $(E2E)

test-full: test ## test, the long matrices, and a minute of each fuzz target
	FITOUT_FULL=1 go test -timeout 60m ./catalog/image
	FITOUT_FULL=1 go test -timeout 400m -v -run TestRunSurvivesKillAndResetAnywhere ./testdata/e2e
	$(MAKE) fuzz FUZZTIME=1m

lint: ## formatting, vet
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w these files:"; echo "$$unformatted"; exit 1; fi
	go vet ./... $(RIG) $(E2E)

bench: deps build ## measure: size, start, scan, modules, images
	@testdata/vm/deps $(BENCH_PACKAGES)
	@ls -l build/fitout | awk '{printf "binary: %.2f MB\n", $$5/1e6}'
	go test -p 1 -run '^$$' -bench . -benchmem -timeout 90m ./... $(TESTED)

peers: deps ## measure fetching beside crane, skopeo and umoci, into the README
	@testdata/vm/deps $(BENCH_PACKAGES)
	go test ./testdata/fetching -run '^$$' -bench Peers -benchtime 1x -timeout 60m -update

fuzz: ## each fuzz target for FUZZTIME
	@for dir in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$dir/*_test.go); do \
			echo "== $$dir $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x ./$$dir || exit 1; \
		done; \
	done

demo: deps build ## boot a throw-away machine and open the wizard on its console
	testdata/vm/run --fitout build/fitout --exec fitout

screens: ## draw the wizard's screens anew, from the program itself
	go test ./tui -run 'Screens|Pictures' -update

install: build ## into PREFIX (/usr/local)
	install -D -m 0755 build/fitout $(DESTDIR)$(PREFIX)/bin/fitout

deps: ## install the Debian packages that are missing (as root)
	@testdata/vm/deps $(PACKAGES)

clean: ## delete what was built here (the cache stays)
	rm -rf build
