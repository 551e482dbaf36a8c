# Everything a user or a contributor runs. `make help` lists it.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A build without what debuggers alone read takes a fifth less; stack traces and profiles are the same. For a debugger, build without make.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

MODULES := proto fuser services tests
PROGRAMS := triskele fuserd memoryd lexicald densed graphd
TOOLS := .cache/tools
# The race detector leaves out three libraries that take several times as long under it, and change nothing that goroutines share:
# SQLite, which is C translated to Go, regular expressions, and the parser of flags, which uses many of those.
DETECTOR := -race -gcflags='modernc.org/...=-race=false -dwarf=false' -gcflags='regexp/...=-race=false -dwarf=false' -gcflags='github.com/alecthomas/kong=-race=false -dwarf=false'
# What --version says and traces are labelled with; VERSION is a release's number.
VERSION ?=
COMMIT ?= $(shell git describe --always --abbrev=12 --dirty --exclude '*' 2>/dev/null)
LDFLAGS = -X github.com/triskele/triskele/fuser/platform/telemetry.version=$(VERSION) -X github.com/triskele/triskele/fuser/platform/telemetry.commit=$(COMMIT)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Show recall at work on a temporary SQLite file: no services, nothing but Go needed
	go run ./services/cmd/triskele demo

.PHONY: build
build: ## Put the programs into bin/: [PROGRAMS=triskele]
	GOGC=400 go build -ldflags '-w $(LDFLAGS)' -o bin/ $(wildcard $(PROGRAMS:%=./*/cmd/%))

# Set, the tests run with the race detector, as in CI.
RACE ?=
# The longest package starts first, so that no processor waits for it in the end.
LONGEST := github.com/triskele/triskele/tests/e2e
.PHONY: test
test: ## Run all tests against a throwaway PostgreSQL with pgvector (installed if absent): [RACE=1] with the race detector, as CI does
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || { tests/postgres.sh install && tests/pgbouncer.sh install; }
	tests/postgres.sh run --memory go test $(if $(RACE),$(DETECTOR)) -vet=off -timeout 30m $(LONGEST) work
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh run --memory tests/pgbouncer.sh run go test -vet=off -count=1 ./services/store/queue ./services/store/postgres/...
	cd deploy && GOWORK=off go test -vet=off ./...

COUNT ?= 20
PACKAGES ?= work
RUN ?= .
.PHONY: test-flakes
test-flakes: ## Run the tests COUNT times beside a busy loop per core, package by package, and list what failed: [PACKAGES=./fuser/web] [RUN=REGEXP]
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run --memory tests/flakes.sh $(COUNT) '$(RUN)' $(PACKAGES) -- $(DETECTOR)

.PHONY: golden
golden: ## Write the expected ranks of services/wiring/golden anew: how a change of ranking is accepted
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run go test -count=1 ./services/wiring/golden -update

# The revision of the release before, whose programs and data the new ones have to get on with.
OLD ?= $(shell cat tests/released)
.PHONY: test-upgrade
test-upgrade: ## Migrate under the programs of the release before, then replace them one by one (OLD=REV)
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run tests/upgrade.sh $(OLD)

.PHONY: test-model2vec
test-model2vec: ## Compare the vectors of a Model2Vec folder with its oracle.json, a list of {"text", "v"} (FOLDER=DIR)
	@test -n "$(FOLDER)" || { echo "make test-model2vec needs FOLDER=DIR" >&2; exit 2; }
	go test -count=1 -v -tags oracle -run '^TestOracle$$' ./services/embed/model2vec -oracle "$(abspath $(FOLDER))"

.PHONY: test-transformer
test-transformer: ## Compare the vectors of a sentence-transformers folder with its oracle.json, as fuser/transformer/modeltest/oracle.py writes it (FOLDER=DIR)
	@test -n "$(FOLDER)" || { echo "make test-transformer needs FOLDER=DIR" >&2; exit 2; }
	go test -count=1 -v -tags oracle -run '^TestOracle$$' ./services/embed/transformer -oracle "$(abspath $(FOLDER))"

RECALLS ?= 100000
CITUS_TEST = TRISKELE_TEST_POSTGRES='$(CITUS)' go test -count=1 -parallel 4
.PHONY: test-citus
test-citus: ## Stores, isolation, faults, random operations and an import on a Citus cluster: CITUS=URL of its coordinator [SINGLE=URL of one PostgreSQL to compare with] [STOP=CMD START=CMD of a worker]
ifndef CITUS
	@echo "test-citus: LEFT OUT: no CITUS=URL names the coordinator of a Citus cluster with workers. Nothing was tested."
else
	$(CITUS_TEST) -timeout 1h -run 'Postgres|/postgres' -skip '$(CITUS_SKIP)' ./services/store/queue ./services/store/replica ./services/memory ./services/lexical ./services/dense ./services/graph
	cd tests && $(CITUS_TEST) -v -timeout 6h -run '^(TestHistory|TestNamespacesStayApart)$$/^postgres' ./e2e -history.ops $(OPS) -history.seed $(SEED) -recalls $(RECALLS)
	cd tests && $(CITUS_TEST) -v -timeout 2h -tags citus -run '^(TestDistributed|TestWritesOfWorkers|TestFaultMatrix)$$' ./e2e -citus.single '$(SINGLE)' -citus.stop '$(STOP)' -citus.start '$(START)'
endif
# Partitions, planner choices and sessions of one server, which a cluster does not have.
CITUS_SKIP = Partition|UseTheIndex|IndexIsBuiltWhereItIsUsed|IndexFindsWhatIsNearest

.PHONY: test-isolation
test-isolation: ## Recall RECALLS times from two namespaces with the same texts, by each of the two locks alone and by both
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	cd tests && ./postgres.sh run go test -count=1 -v -timeout 6h -run '^TestNamespacesStayApart$$' ./e2e -recalls $(RECALLS)

PROMPTS ?= 1000
.PHONY: test-hook
test-hook: ## Run the hook PROMPTS times with the gateway up, slow, dead and embedded, and print what it took
	cd tests && go test -count=1 -v -timeout 2h -run '^TestHook' ./e2e -hook.prompts $(PROMPTS)

FAULT_RECALLS ?= 100
.PHONY: test-faults
test-faults: ## Do every fault to every part and recall FAULT_RECALLS times meanwhile; writes docs/faults.md. Wants a quiet machine
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	cd tests && ./postgres.sh run go test -count=1 -v -timeout 1h -run '^TestFaultMatrix$$' ./e2e -faults.recalls $(FAULT_RECALLS) -faults.report "$(CURDIR)/docs/faults.md"

CHROMIUM ?= $(shell command -v chromium chromium-browser google-chrome | head -n 1)
PICTURES ?= $(CURDIR)/docs/page
.PHONY: test-page
test-page: ## Use the gateway's page in a headless Chromium and write its pictures into docs/page; call the gateway from a page, by the TypeScript client and by grpcurl (Chromium, npm)
	@test -n "$(CHROMIUM)" || { echo "make test-page needs Chromium, of Debian's package chromium for instance" >&2; exit 2; }
	go test -count=1 -v -tags browser -run 'InABrowser|^TestCallers$$|^TestFirstList$$' ./tests/page -pictures "$(PICTURES)"

.PHONY: docs
docs: ## Write the documentation as HTML into out/docs, to be read without a server
	go run ./tests/docsite

.PHONY: five-minutes
five-minutes: ## Clone, build with empty caches, start, and recall over MCP as a new user would, and write docs/start-transcript.md
	go run ./tests/fiveminutes

.PHONY: test-plugins
test-plugins: ## Check the manifest of the MCP bundle by its own tool (npm)
	npx --yes @anthropic-ai/mcpb@2.1.2 validate deploy/plugins/mcpb/manifest.json

.PHONY: test-python
test-python: ## Install the Python client's wheel into a clean environment and test it against gateways that run (Python 3.10 with venv, PyPI, openssl)
	tests/clients/python.sh

.PHONY: test-typescript
test-typescript: ## Install the TypeScript client's package into a clean folder and test it against gateways that run (Node.js 20, npm, openssl)
	tests/clients/typescript.sh

.PHONY: test-secrets
test-secrets: ## Compare what capture redacts with the rules of gitleaks, which are downloaded
	go run ./tests/lab/secrets

.PHONY: test-mcp
test-mcp: ## Have both SDKs for TypeScript and the Inspector call the MCP server, over stdio and HTTP (Node.js, npm)
	tests/clients/mcp.sh

.PHONY: test-pgbouncer
test-pgbouncer: ## Run the tests of services through PgBouncer in transaction mode (installed if absent), but for those of migrating, which wants the server itself
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/pgbouncer.sh install
	cd services && ../tests/postgres.sh run --memory ../tests/pgbouncer.sh run go test -count=1 -timeout 30m $$(go list ./... | grep -v '/services/store/schema$$')

OPS ?= 10000
SEED ?= $(shell date +%s)
.PHONY: test-history
test-history: ## Random writes, recalls and kills, OPS of them on each store, and everything as it must be: for every night
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	cd tests && ./postgres.sh run go test -count=1 -v -timeout 6h -run '^TestHistory$$' ./e2e -history.ops $(OPS) -history.seed $(SEED)

MINUTES ?= 10
.PHONY: test-outage
test-outage: ## Take the embedding server away for MINUTES while memories are stored and recalled: no recall fails, the backlog drains
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	cd tests && ./postgres.sh run go test -count=1 -v -timeout 6h -run '^TestEmbedderOutage$$' ./e2e -outage $(MINUTES)m

.PHONY: test-telemetry
test-telemetry: ## Load deploy/telemetry into promtool and an OpenTelemetry collector, which is built (minutes, the first time)
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/telemetry.sh

.PHONY: test-kubernetes
test-kubernetes: ## Have a real Kubernetes API server accept deploy/kubernetes; it is built (ten minutes, the first time) and has no cluster behind it
	deploy/kubernetes/apiserver.sh

.PHONY: bench
bench: ## Run all benchmarks once
	tests/postgres.sh run go test -run '^$$' -bench . -benchtime 1s work

SIZES ?= 20000,200000,1000000
.PHONY: bench-lexical
bench-lexical: ## Measure lexical search by number of memories and write docs/bench/lexical.md: [SIZES=20000,200000]
	tests/postgres.sh run go run ./tests/lab/benchlexical --sizes $(SIZES) --out docs/bench

DENSE_SIZES ?= 20000,200000
.PHONY: bench-dense
bench-dense: ## Measure dense search on both stores by number of memories, and what it finds, and write docs/bench/dense.md: [DENSE_SIZES=20000,200000,1000000], SQLite alone beyond 200,000
	tests/postgres.sh run go run ./tests/lab/benchdense --sizes $(DENSE_SIZES) --out docs/bench

.PHONY: bench-write
bench-write: ## Time storing a memory with an embedder that works, one that hangs and one that is absent
	TRISKELE_TEST_DURABLE=on tests/postgres.sh run go test -run '^$$' -bench '^BenchmarkRemember$$' -benchtime 1000x ./services/wiring/standalone

.PHONY: bench-fuser
bench-fuser: ## Time the gateway itself, and over sockets beside the bare fan-out, and write docs/bench/fuser.md
	go run ./tests/lab/fuserbench

RECALL_MEMORIES ?= 20000
CLIENTS ?= 1,8
.PHONY: bench-recall
bench-recall: build ## Time recalls through five processes and in one, and write docs/bench/recall.md, or recall-N.md for another size: [RECALL_MEMORIES=20000] [CLIENTS=1,8] [WEAVIATE=HOST:HTTPPORT,HOST:GRPCPORT]
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run go run ./tests/lab/recallbench -memories $(RECALL_MEMORIES) -clients "$(CLIENTS)" -weaviate "$(WEAVIATE)"

QUERIES ?= 2000
.PHONY: bench-telemetry
bench-telemetry: build ## Time recalls without telemetry, with metrics, and with 1 % and 100 % of the traces, and write docs/bench/telemetry.md: [RECALL_MEMORIES=20000] [CLIENTS=1,8] [QUERIES=2000]
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run go run ./tests/lab/recallbench -telemetry -memories $(RECALL_MEMORIES) -clients "$(CLIENTS)" -queries $(QUERIES)

CAPACITY_MEMORIES ?= 20000,200000,1000000
.PHONY: bench-capacity
bench-capacity: build ## Measure queries per core and bytes per memory of each service, and write docs/bench/capacity.md: [CAPACITY_MEMORIES=20000,200000,1000000] [QUERIES=2000]
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run go run ./tests/lab/recallbench -capacity $(CAPACITY_MEMORIES) -queries $(QUERIES)

MEMORIES ?= 100000
.PHONY: bench-namespaces
bench-namespaces: ## Fill a namespace with MEMORIES memories on both stores, count, rename and delete it
	tests/postgres.sh run go test -run '^$$' -bench '^BenchmarkNamespace$$' -benchtime 1x -timeout 0 ./services/wiring/backend -memories $(MEMORIES)

.PHONY: bench-security
bench-security: ## Search as the owner of the tables and under the role of each service
	tests/postgres.sh run go test -run '^$$' -bench '^BenchmarkRowSecurity$$' -benchtime 1000x -timeout 0 ./services/wiring/backend

RECORDS ?= 10000,100000
.PHONY: bench-import
bench-import: build ## Import RECORDS into both stores: time, memory, and what is left of an import that is killed; prints Markdown
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run go run ./tests/lab/importbench -records "$(RECORDS)"

# Each fuzz target for a short while; a finding is written to testdata and fails from then on.
FUZZTIME ?= 20s
.PHONY: fuzz
fuzz: ## Fuzz what parses, FUZZTIME each
	tests/postgres.sh run $(MAKE) --no-print-directory fuzz-targets

.PHONY: fuzz-targets
fuzz-targets:
	for file in $$(grep -rl --include '*_test.go' '^func Fuzz' fuser services); do \
	  for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$file); do \
	    echo "$$target in $$(dirname $$file)"; \
	    (cd $$(dirname $$file) && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) .); \
	  done; \
	done

ARCS ?= 5000,50000,500000
.PHONY: bench-graph
bench-graph: ## Time graph searches on both stores at ARCS mentions and links, with what indexing and reading the graph takes, and write docs/bench/graph.md
	tests/postgres.sh run go test -run '^$$' -bench '^BenchmarkTraversal$$' -benchtime 500x -timeout 2h ./services/graph -args -arcs $(ARCS) -report $(CURDIR)/docs/bench/graph.md

SETS ?= locomo-turn
STORE ?= sqlite
OUT ?= out/eval-$(STORE)
EVAL := bin/triskele eval --data "$(DATA)" --sets "$(SETS)" --store $(STORE) --out "$(OUT)" $(if $(CONFIGS),--configs $(CONFIGS)) $(if $(SCORER),--scorer $(SCORER))
.PHONY: eval
eval: build ## Measure recall: make eval DATA=DIR [SETS=a,b] [STORE=sqlite|postgres] [OUT=DIR] [CONFIGS=D-lexical] [SCORER=bm25|ts_rank]
	@test -n "$(DATA)" || { echo "make eval needs DATA=DIR, a folder of sets in the BEIR layout" >&2; exit 2; }
ifeq ($(STORE),postgres)
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run bash -c '$(EVAL) --postgres "$$TRISKELE_TEST_POSTGRES"'
else
	$(EVAL)
endif

# What a recall finds against the time that it may take: settings of the reranker, as NAME=FLAGS.
TIMES := none= 10_ms=--reranker-within=10ms 20_ms=--reranker-within=20ms 35_ms=--reranker-within=35ms 50_ms=--reranker-within=50ms \
	ten=--reranker-top=10 thirty=--reranker-top=30 a_hundred=--reranker-top=100
.PHONY: eval-time
eval-time: build ## Draw recall against milliseconds and write docs/bench/time.md: make eval-time DATA=DIR
	@test -n "$(DATA)" || { echo "make eval-time needs DATA=DIR, a folder of sets in the BEIR layout" >&2; exit 2; }
	for t in $(TIMES); do bin/triskele eval --data "$(DATA)" --sets locomo-turn --limit 600 \
		--configs $$([ $$t = none= ] && echo A-all || echo F-all+reranker) $${t#*=} --out out/eval-time/$${t%%=*} || exit; done
	go run ./tests/lab/cmd/timecurve --out docs/bench --command "make eval-time DATA=DIR" --peers "published: a cross-encoder=0.598" \
		--peers "published: words alone=0.448" --peers "published: words and vectors=0.424" \
		$(foreach t,$(TIMES),"$(subst _, ,$(firstword $(subst =, ,$(t))))=out/eval-time/$(firstword $(subst =, ,$(t)))")

# The last commit that changed more than documents: a report that is committed names the same one when it is made again.
CODE = $(shell git log -1 --format=%H -- fuser proto services tests/lab go.work)$(shell git diff --quiet HEAD -- fuser proto services tests/lab go.work || echo -modified)
PLANS ?= $(patsubst docs/evidence/plans/%.yaml,%,$(wildcard docs/evidence/plans/*.yaml))
.PHONY: evidence
evidence: ## Run the plans in docs/evidence/plans and write their reports and verdicts: make evidence DATA=DIR [PLANS="a b"]
	@test -n "$(DATA)" || { echo "make evidence needs DATA=DIR, a folder of sets in the BEIR layout" >&2; exit 2; }
	@test -n "$${TRISKELE_TEST_POSTGRES:-}" || tests/postgres.sh install
	tests/postgres.sh run bash -ec 'for plan in $(PLANS); do \
		go run ./tests/lab/cmd/evidence --plan "docs/evidence/plans/$$plan.yaml" --data "$(DATA)" --out "out/evidence/$$plan" \
		--revision "$(CODE)"; done'

MODEL ?= services/embed/static/model.bin
.PHONY: train-embedder
train-embedder: ## Train the built-in embedder from scratch: make train-embedder DATA=DIR [MODEL=FILE]
	@test -n "$(DATA)" || { echo "make train-embedder needs DATA=DIR, a folder with text-*.jsonl.zst and pairs-*.jsonl.gz" >&2; exit 2; }
	go run ./tests/lab/cmd/trainembedder --data "$(DATA)" --out "$(MODEL)"

EMBEDDER_SETS := locomo-turn,scifact-test,brainbench-world,musique-train100-openie,factconsolidation-64k
BASELINE ?= hashed
.PHONY: eval-embedders
eval-embedders: build ## Compare embedders, alone and fused with the lexical leg: make eval-embedders DATA=DIR [BASELINE=model2vec:DIR]
	@test -n "$(DATA)" || { echo "make eval-embedders needs DATA=DIR, a folder of sets in the BEIR layout" >&2; exit 2; }
	bin/triskele eval --data "$(DATA)" --sets $(EMBEDDER_SETS) --store sqlite --configs D-lexical --out out/eval-lexical
	go run ./tests/lab/cmd/compareembedders --data "$(DATA)" --sets $(EMBEDDER_SETS) --lexical out/eval-lexical --baseline "$(BASELINE)" --out tests/lab/reports/embedder/report.md

FUSION ?= out/fusion
PYTHON ?= $(FUSION)/venv/bin/python
out/fusion/venv/bin/python:
	python3 -m venv $(patsubst %/bin,%,$(@D))
	$@ -m pip install --quiet --disable-pip-version-check -r tests/lab/calibrate/requirements.txt

# One thread, so that sums are the same on any machine.
.PHONY: train-fusion
train-fusion: $(PYTHON) ## Train the calibrated fusion from scratch and judge it by sets unseen: make train-fusion DATA=DIR, a folder with eval and train [PYTHON=with numpy and scipy]
	@test -n "$(DATA)" || { echo "make train-fusion needs DATA=DIR, a folder with eval, the sets, and train, the pairs" >&2; exit 2; }
	go run ./tests/lab/cmd/fusionfeatures --data "$(DATA)" --out $(FUSION)/features
	OPENBLAS_NUM_THREADS=1 $(PYTHON) tests/lab/calibrate/train.py --features $(FUSION)/features --model fuser/fusion/model.json --without $(FUSION)/without --card docs/fusion

.PHONY: generate
generate: reference ## Write the code of proto/ in Go, Python and TypeScript, what serves it over HTTP, docs/reference/api.md, what reference writes, and deploy/plugins
	proto/buf.sh generate
	go run ./tests/plugins

.PHONY: reference
reference: build ## Write docs/reference/cli.md from the programs; manual pages and completion scripts into out/man and out/completion
	docs/reference.sh

.PHONY: format
format: ## Format Go and proto files
	gofmt -w $(MODULES) deploy
	$(TOOLS)/buf format -w proto

.PHONY: tidy
tidy: ## Bring every go.mod up to date, to the same versions
	go work sync
	for m in $(MODULES) proto/tools deploy; do (cd $$m && GOWORK=off go mod tidy); done

GENERATED := proto fuser/web docs/reference deploy/plugins
.PHONY: check
check: check-generated check-lint check-modules ## Everything CI checks besides the tests

.PHONY: check-generated
check-generated: generate ## What is generated is what the proto files and the flags give; the contract breaks nobody (BASE=REV)
	proto/buf.sh lint
	git diff --exit-code -- $(GENERATED)
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git status --porcelain -- $(GENERATED); exit 1; }
	proto/buf.sh breaking $${BASE:-HEAD}

.PHONY: check-lint
check-lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l $(MODULES) deploy)" || { echo "gofmt would change:"; gofmt -l $(MODULES) deploy; exit 1; }
	go vet -tags oracle,upgrade,browser,collector work
	@test -x $(TOOLS)/staticcheck || { mkdir -p $(TOOLS) && GOWORK=off go -C proto/tools build -o "$(CURDIR)/$(TOOLS)/" tool; }
	for m in $(MODULES); do (cd $$m && "$(CURDIR)/$(TOOLS)/staticcheck" ./...); done
	cd deploy && GOWORK=off "$(CURDIR)/$(TOOLS)/staticcheck" ./...

.PHONY: check-modules
check-modules: ## go.work names every module, and each builds alone with a tidy go.mod
	diff <(git ls-files '*go.mod' | xargs -n1 dirname | grep -vx -e proto/tools -e deploy | sort) <(go work edit -json | sed -n 's/.*"DiskPath": "\.\/\(.*\)".*/\1/p' | sort)
	! grep -E 'pgx|sqlite|pgvector|goose' fuser/go.mod proto/go.mod
	for m in $(MODULES) deploy; do (cd $$m && GOWORK=off go mod tidy -diff && GOWORK=off go vet ./...); done

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin out .cache
