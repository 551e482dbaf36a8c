package e2e_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// doors are the calls by which bytes can leave a process for somewhere else: a connection, a request, a log, a span, a
// metric or another program. A library that opens connections by itself is a door too.
var doors = map[string][]string{
	"net":                             {"Dial", "DialTimeout", "Dialer", "DialUDP", "DialTCP", "DialUnix", "DialIP", "Listen", "ListenTCP", "ListenUDP", "ListenUnix", "ListenPacket", "ListenConfig"},
	"crypto/tls":                      {"Dial", "Dialer", "DialWithDialer"},
	"net/http":                        {"Client", "DefaultClient", "Get", "Post", "PostForm", "Head", "Transport", "DefaultTransport", "Server", "ListenAndServe", "Serve"},
	"net/smtp":                        {"SendMail", "Dial"},
	"os":                              {"Stdout", "Stderr", "Create", "CreateTemp", "WriteFile", "OpenFile"},
	"os/exec":                         {"Command", "CommandContext"},
	"fmt":                             {"Print", "Printf", "Println"},
	"log":                             {"New", "Print", "Printf", "Println", "Default"},
	"log/slog":                        {"NewTextHandler", "NewJSONHandler", "Default", "Info", "Warn", "Error", "Debug"},
	"database/sql":                    {"Open", "OpenDB"},
	"google.golang.org/grpc":          {"NewClient", "Dial", "DialContext"},
	"github.com/jackc/pgx/v5":         {"Connect", "ConnectConfig"},
	"github.com/jackc/pgx/v5/pgxpool": {"New", "NewWithConfig"},
	"github.com/XSAM/otelsql":         {"Open", "OpenDB", "Register"},
	"go.opentelemetry.io/contrib/exporters/autoexport":     {"NewSpanExporter", "NewMetricReader", "NewLogExporter"},
	"github.com/triskele/triskele/fuser/platform/endpoint": {"New"},
}

// covered are the doors there are, each with what keeps texts from leaving by it or the test that watches it. Whoever
// opens another one adds it here, and to TestCanary if it leads out of the system.
var covered = map[string]string{
	"fuser/platform/admin: http.Server":                     "the address for operators: TestCanary reads /metrics and what the page lists",
	"fuser/web/internal/routes/triskele/v1: grpc.NewClient": "generated, and not called: connections are given to it",
	"fuser/platform/rpc: http.Server":                       "ServeHTTP serves what is listed here, too",
	"fuser/web: http.Server":                                "callers over HTTP, who get the answers and errors of gRPC; TestHTTPLogsNoTexts reads the log",
	"fuser/platform/program: os.Stderr":                     "logs of the daemons: TestCanary reads them at the level debug",
	"fuser/platform/program: slog.NewJSONHandler":           "the same",
	"fuser/platform/rpc: grpc.NewClient":                    "connections between the services, which carry texts to who may have them; TestCanary reads what models and collectors get",
	"fuser/platform/panics: slog.Default":                   "where a panic was, without its value: TestCatch reads it",
	"services/wiring/backend: os.CreateTemp":                "an empty file beside the SQLite file, to see whether the disk takes it; removed at once",
	"fuser/platform/rpc: net.Listen":                        "the services' own address: what callers get are answers, and errors, which TestCanary reads",
	"fuser/platform/endpoint: http.Client":                  "posts what it is given to one server: who gives it something is listed here, too",
	"fuser/platform/endpoint: http.DefaultTransport":        "the same",
	"fuser/platform/endpoint: http.Transport":               "the same",
	"fuser/platform/replace: os.CreateTemp":                 "a file of tokens' hashes, a position in a transcript, an export, a backup, an agent's configuration without texts, or a run file of public data, where the user says",
	"fuser/rerank: endpoint.New":                            "TestCanary has a reranker that keeps every request; the gateway shows it no sensitive memory",
	"fuser/platform/auth: os.Stderr":                        "the audit log, where the operator says: methods and namespaces, and no texts; TestAudit and TestTrust read it",
	"fuser/platform/auth: http.Client":                      "asks an issuer of tokens for its keys, and tells it nothing",
	"fuser/platform/auth: os.OpenFile":                      "the same",
	"fuser/platform/auth: slog.NewJSONHandler":              "the same",
	"fuser/platform/auth/authtest: os.WriteFile":            "for tests only",
	"fuser/transformer/modeltest: os.WriteFile":             "for tests only",
	"fuser/platform/telemetry: autoexport.NewMetricReader":  "TestCanary has a collector that reads all metrics",
	"fuser/platform/telemetry: autoexport.NewSpanExporter":  "TestCanary has a collector that reads all spans",
	"services/agents/cli: slog.NewTextHandler":              "logs of `triskele up`: TestCanary reads them",
	"services/cmd/triskele: os.Stdout":                      "answers to who runs the program; TestCanary reads what the commands for operators print",
	"services/cmd/triskele: os.Stderr":                      "the same",
	"services/agents/cli: http.Server":                      "`triskele mcp --listen`: what agents get are answers and errors; TestMCPLogsNoTexts reads its log",
	"services/agents/cli: os.OpenFile":                      "the SQLite file, where the user says, for the user alone; an empty file that marks a session, and ids of what its agent was given",
	"services/agents/cli: os.WriteFile":                     "an empty file that marks a session as private",
	"services/agents/connect: exec.CommandContext":          "`triskele connect --list` starts the MCP server that an agent's configuration names, and asks it one question of its own",
	"services/agents/userservice: os.WriteFile":             "the file of a user service: a command line, and no texts",
	"services/agents/userservice: exec.CommandContext":      "systemctl and launchctl, with names of the service",
	"services/agents/cli: net.Dialer":                       "asks whether anything listens at the gateway's address, and says nothing",
	"services/agents/cli: exec.Command":                     "the hook leaves a process of this program behind, and tells it the path of a transcript",
	"services/agents/importer: sql.Open":                    "the SQLite file that is imported from, read only",
	"services/agents/spending/traces: http.Client":          "`triskele budget` asks for traces where its user says, and sends nothing but that question",
	"services/embed/remote: endpoint.New":                   "TestCanary has an embedder that keeps every request; the database keeps sensitive memories out of the queue and of the vectors",
	"services/llm/internal/chat: endpoint.New":              "TestCanary has a model that keeps every request, for the curator and the extractor; memory.Curatable, graph.Leg.Unread and the database keep sensitive memories out",
	"services/store/postgres: pgxpool.NewWithConfig":        "the database: TestCanary looks into every table",
	"services/store/sqlite: otelsql.OpenDB":                 "the database: TestCanary looks into every table",
	"services/store/postgres/pgtest: v5.Connect":            "for tests only",
	"services/store/postgres/pgtest: sql.Open":              "for tests only",
	"services/wiring/storetest: os.Stderr":                  "for tests only",
	"services/wiring/storetest: os.WriteFile":               "for tests only",
	"services/wiring/storetest: slog.NewTextHandler":        "for tests only",
	"services/eval: v5.Connect":                             "`triskele eval` measures with public data sets",
	"services/eval: os.WriteFile":                           "the same: reports",
	"fuser/platform/rpc/rpctest: net.ListenPacket":          "for tests only",
}

// libraries are the modules of others that programs import, by the beginning of their paths. One that can open a
// connection or write by itself says what with; its functions that do are doors.
var libraries = map[string]string{
	"github.com/RoaringBitmap/roaring/v2":       "no",
	"github.com/blevesearch/snowballstem":       "no",
	"buf.build/go/protovalidate":                "no",
	"github.com/XSAM/otelsql":                   "spans and metrics of statements, without arguments: TestCanary reads them",
	"github.com/aymanbagabas/go-udiff":          "no",
	"github.com/bmatcuk/doublestar/v4":          "no",
	"github.com/pelletier/go-toml/v2":           "no",
	"github.com/tailscale/hujson":               "no",
	"github.com/tidwall/btree":                  "no",
	"github.com/alecthomas/kong":                "prints usage and wrong flags to who runs a program",
	"github.com/cenkalti/backoff/v5":            "no",
	"github.com/coreos/go-oidc/v3":              "asks an issuer of tokens for its keys, through our client",
	"github.com/exaring/otelpgx":                "spans of statements, without arguments: TestCanary reads them",
	"github.com/fsnotify/fsnotify":              "no",
	"github.com/go-jose/go-jose/v4":             "no",
	"github.com/google/uuid":                    "no",
	"github.com/grpc-ecosystem/grpc-gateway/v2": "answers to callers over HTTP; what it logs to standard error quotes nothing: TestHTTPLogsNoTexts reads it",
	"github.com/hashicorp/golang-lru/v2":        "no",
	"github.com/klauspost/compress":             "no",
	"github.com/maypok86/otter/v2":              "logs a panic of its own to standard error, without keys and values",
	"github.com/jackc/pgx/v5":                   "the database",
	"github.com/sony/gobreaker/v2":              "no",
	"github.com/pgvector/pgvector-go":           "no",
	"github.com/pressly/goose/v3":               "the database",
	"github.com/prometheus/client_golang":       "metrics of Go and the process, and how metrics are written: TestCanary reads them",
	"github.com/rs/cors":                        "no",
	"github.com/schollz/progressbar/v3":         "draws where it is told to: the error output of an import",
	"github.com/x448/float16":                   "no",
	"github.com/yuin/goldmark":                  "no",
	"go.abhg.dev/goldmark/wikilink":             "no",
	"go.opentelemetry.io/contrib":               "spans and metrics of calls: TestCanary reads them",
	"go.opentelemetry.io/otel":                  "the same",
	"go.yaml.in/yaml/v3":                        "no",
	"golang.org/x/sys":                          "no",
	"golang.org/x/term":                         "no",
	"golang.org/x/sync":                         "no",
	"golang.org/x/text":                         "no",
	"golang.org/x/time":                         "no",
	"google.golang.org/genproto":                "no",
	"google.golang.org/grpc":                    "connections between the services",
	"google.golang.org/protobuf":                "no",
	"go.opentelemetry.io/proto":                 "no: messages",
	"modernc.org/sqlite":                        "the database",
	"modernc.org/libc":                          "the database: what its driver stands on, for reading whole tables",
	"golang.org/x/net":                          "answers of a name server, for tests only",
	"github.com/gofrs/flock":                    "locks a file beside that of the tokens, and writes nothing into it",
	"github.com/rivo/uniseg":                    "no",
	"github.com/cespare/xxhash/v2":              "no",
	"github.com/vgarvardt/pgx-google-uuid/v5":   "no",

	"github.com/google/jsonschema-go":        "no",
	"github.com/modelcontextprotocol/go-sdk": "answers to an agent, by standard output or to who asked over HTTP; its log is ours: TestMCPLogsNoTexts reads it",
}

// TestEveryDoorIsCovered reads the source of all programs for doors and libraries that nobody has thought about.
func TestEveryDoorIsCovered(t *testing.T) {
	t.Parallel()
	found, used := map[string]bool{}, map[string]bool{}
	for _, module := range []string{"fuser", "services"} {
		root := filepath.Join("..", "..", module)
		err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			folder, err := filepath.Rel(filepath.Join("..", ".."), filepath.Dir(file))
			if err != nil {
				return err
			}
			for _, spec := range parsed.Imports {
				if from := strings.Trim(spec.Path.Value, `"`); !ours(from) {
					used[libraryOf(from)] = true
				}
			}
			for _, door := range doorsOf(parsed) {
				found[filepath.ToSlash(folder)+": "+door] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, door := range slices.Sorted(maps.Keys(found)) {
		if covered[door] == "" {
			t.Errorf("%q is a way out that no test covers", door)
		}
	}
	for _, library := range slices.Sorted(maps.Keys(used)) {
		if libraries[library] == "" {
			t.Errorf("%q is a library of which nobody has said whether it lets anything out", library)
		}
	}
	for _, library := range slices.Sorted(maps.Keys(libraries)) {
		if !used[library] {
			t.Errorf("%q is said to be used, but is not", library)
		}
	}
	for _, door := range slices.Sorted(maps.Keys(covered)) {
		if !found[door] {
			t.Errorf("%q is said to be covered, but there is no such way out", door)
		}
	}
}

// ours says whether a package is the project's or Go's own.
func ours(from string) bool {
	host, _, _ := strings.Cut(from, "/")
	return !strings.Contains(host, ".") || strings.HasPrefix(from, "github.com/triskele/triskele/")
}

// libraryOf returns which of the libraries a package is of, or the package if it is of none.
func libraryOf(from string) string {
	for library := range libraries {
		if from == library || strings.HasPrefix(from, library+"/") {
			return library
		}
	}
	return from
}

// doorsOf returns the doors that a file uses, as "package.Name".
func doorsOf(file *ast.File) (out []string) {
	imported := map[string]string{} // by the name it has in the file
	for _, spec := range file.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil || doors[from] == nil {
			continue
		}
		name := path.Base(from)
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(from))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = from
	}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if name, ok := selector.X.(*ast.Ident); ok && slices.Contains(doors[imported[name.Name]], selector.Sel.Name) {
			out = append(out, path.Base(imported[name.Name])+"."+selector.Sel.Name)
		}
		return true
	})
	return out
}

// TestDoorsAreSeen makes sure that the reading above is not blind.
func TestDoorsAreSeen(t *testing.T) {
	for source, want := range map[string]string{
		`package p; import "net/http"; var c = http.Client{}`:                                  "http.Client",
		`package p; import "net/http"; func f() { http.Post("", "", nil) }`:                    "http.Post",
		`package p; import web "net/http"; func f() { go func() { _ = web.DefaultClient }() }`: "http.DefaultClient",
		`package p; import "github.com/jackc/pgx/v5"; func f() { pgx.Connect(nil, "") }`:       "v5.Connect",
		`package p; import "google.golang.org/grpc"; func f() { grpc.NewClient("") }`:          "grpc.NewClient",
		`package p; import "net/http"; func f(w http.ResponseWriter) { w.WriteHeader(200) }`:   "",
		`package p; import "os/exec"; func f() { exec.Command("curl") }`:                       "exec.Command",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(doorsOf(file), " "); got != want {
			t.Errorf("%s: found %q, want %q", source, got, want)
		}
	}
}
