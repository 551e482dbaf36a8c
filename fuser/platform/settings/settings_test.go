package settings_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/triskele/triskele/fuser/platform/settings"
)

// program is one with commands, as triskele is.
type program struct {
	settings.Source
	Ask struct {
		Address string             `default:"here" env:"TRISKELE_ADDRESS"`
		Limit   int                `default:"10"`
		Leg     []string           `sep:";" env:"TRISKELE_LEGS"`
		Times   []time.Duration    `default:"1s"`
		Weight  map[string]float64 ``
		Strict  bool               `default:"true" negatable:""`
		Rules   []byte             `type:"filecontent"`
		Kind    string             `enum:"a,b" default:"a"`
		Alpha   *float64           ``
		Model   string             `env:"TRISKELE_MODEL" needs:"alpha,strict"`
	} `cmd:""`
	Group struct {
		Tell struct {
			Address string `required:"" env:"TRISKELE_ADDRESS"`
			Limit   int    `default:"5"`
		} `cmd:""`
	} `cmd:""`
}

// parse reads a command line beside a file.
func parse(t *testing.T, file string, args ...string) (*program, *kong.Context, error) {
	t.Helper()
	p := &program{}
	parser, err := kong.New(p, kong.Name("prog"), kong.Exit(func(int) {}), settings.Durations())
	if err != nil {
		t.Fatal(err)
	}
	if file != "" {
		path := filepath.Join(t.TempDir(), "prog.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	ctx, err := parser.Parse(args)
	return p, ctx, err
}

func TestPrecedence(t *testing.T) {
	const file = "address: file\nask: {limit: 3}\n"
	p, _, err := parse(t, file, "ask")
	if err != nil || p.Ask.Address != "file" || p.Ask.Limit != 3 {
		t.Errorf("the file: %+v, %v", p.Ask, err)
	}
	t.Setenv("TRISKELE_ADDRESS", "environment")
	if p, _, err = parse(t, file, "ask"); err != nil || p.Ask.Address != "environment" {
		t.Errorf("the environment: %+v, %v", p.Ask, err)
	}
	if p, _, err = parse(t, file, "ask", "--address=flag"); err != nil || p.Ask.Address != "flag" {
		t.Errorf("a flag: %+v, %v", p.Ask, err)
	}
	if p, _, err = parse(t, file, "group", "tell"); err != nil || p.Group.Tell.Limit != 5 {
		t.Errorf("another command's setting: %+v, %v", p.Group.Tell, err)
	}
}

func TestValues(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(rules, []byte("be kind"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, _, err := parse(t, `
legs: [lexical=a;b, dense=c]     # a separator within a value
ask:
  times: [10ms, 2s]
  weight: {dense: 0.5, graph: 2}
  strict: no
  kind: b
  rules: `+rules+`
address: all
group: {tell: {address: one}}
`, "ask")
	if err != nil {
		t.Fatal(err)
	}
	if a := p.Ask; !reflect.DeepEqual(a.Leg, []string{"lexical=a;b", "dense=c"}) || !reflect.DeepEqual(a.Times, []time.Duration{10 * time.Millisecond, 2 * time.Second}) ||
		!reflect.DeepEqual(a.Weight, map[string]float64{"dense": 0.5, "graph": 2}) || a.Strict || a.Kind != "b" || string(a.Rules) != "be kind" || a.Address != "all" {
		t.Errorf("%+v", a)
	}
	if p, _, err = parse(t, "address: all\ngroup: {tell: {address: one}}", "group", "tell"); err != nil || p.Group.Tell.Address != "one" {
		t.Errorf("a command's own setting: %+v, %v", p.Group.Tell, err)
	}
	if _, _, err := parse(t, "# nothing\n", "ask"); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestWrongFiles(t *testing.T) {
	for name, x := range map[string]struct{ file, says string }{
		"a typing error":        {"address: x\nadress: y", `prog.yaml:2: no setting is called "adress"`},
		"of a command":          {"ask:\n  limti: 3", `prog.yaml:2: no setting is called "limti"`},
		"of a command's name":   {"groop:\n  tell: {}", `no setting is called "groop"`},
		"at the wrong place":    {"limit: 3", `prog.yaml:1: no setting is called "limit"`},
		"the file itself":       {"config: x", `no setting is called "config"`},
		"a command":             {"ask: 3", `prog.yaml:1: "ask" is a command`},
		"twice":                 {"address: x\naddress: y", "prog.yaml:2: \"address\" is set twice"},
		"no number":             {"ask:\n  limit: many", "prog.yaml:2: expected a valid"},
		"a negative time":       {"ask:\n  times: [1s, -1s]", "prog.yaml:2: must not be negative, but is -1s"},
		"no list":               {"ask:\n  limit: [1, 2]", "prog.yaml:2: --limit needs a value"},
		"no value":              {"address:", "prog.yaml:1: --address needs a value"},
		"not among the choices": {"ask:\n  kind: c", `--kind must be one of "a","b"`},
		"two documents":         {"address: x\n---\nask: {limit: 3}", "prog.yaml:2: the file must have one YAML document"},
		"no settings":           {"- a\n- b", "prog.yaml:1: settings must have the form"},
		"no YAML":               {"address: [x", "prog.yaml: line 1"},
	} {
		if _, _, err := parse(t, x.file, "ask"); err == nil || !strings.Contains(err.Error()+"\n", x.says) {
			t.Errorf("%s: %v, want %q", name, err, x.says)
		}
	}
	if _, _, err := parse(t, "", "ask", "--config=/nowhere.yaml"); err == nil || !strings.Contains(err.Error(), "--config names another") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestWhichFile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	mine := settings.Candidates("prog")[0]
	if err := os.MkdirAll(filepath.Dir(mine), 0o700); err != nil {
		t.Fatal(err)
	}
	if p, _, err := parse(t, "", "ask"); err != nil || p.Ask.Address != "here" {
		t.Errorf("no file: %+v, %v", p.Ask, err)
	}
	if err := os.WriteFile(mine, []byte("address: home\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, _, err := parse(t, "", "ask"); err != nil || p.Ask.Address != "home" {
		t.Errorf("the user's file: %+v, %v", p.Ask, err)
	}
	if p, _, err := parse(t, "address: named", "ask"); err != nil || p.Ask.Address != "named" {
		t.Errorf("a file that is named: %+v, %v", p.Ask, err)
	}
	t.Setenv("TRISKELE_CONFIG", "off")
	if p, _, err := parse(t, "", "ask"); err != nil || p.Ask.Address != "here" {
		t.Errorf("off: %+v, %v", p.Ask, err)
	}
}

func TestNeeds(t *testing.T) {
	needs := func(file string, args ...string) error {
		_, ctx, err := parse(t, file, append([]string{"ask"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return settings.Needs(ctx)
	}
	t.Setenv("TRISKELE_MODEL", "")
	for _, args := range [][]string{{"--no-strict"}, {"--no-strict", "--model="}, {"--model=x"}, {"--no-strict", "--model=x", "--alpha=0"}} {
		if err := needs("", args...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	const want = "--model counts only with --alpha or --strict: give that as well"
	if err := needs("", "--no-strict", "--model=x"); err == nil || err.Error() != want {
		t.Errorf("from the command line: got %v, want %s", err, want)
	}
	t.Setenv("TRISKELE_MODEL", "x")
	if err := needs("", "--no-strict"); err == nil {
		t.Error("from a variable: accepted")
	}
	if err := os.Unsetenv("TRISKELE_MODEL"); err != nil {
		t.Fatal(err)
	}
	if err := needs("model: x", "--no-strict"); err == nil {
		t.Error("from the file: accepted")
	}
}
