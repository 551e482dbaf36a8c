package deploy_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

// composed reads compose.yaml as Docker does: fields that are not in its schema are an error.
func composed(t *testing.T) *types.Project {
	t.Helper()
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: ".", ConfigFiles: []types.ConfigFile{{Filename: "compose.yaml"}}, Environment: types.Mapping{"VERSION": "1.0.0"},
	}, func(o *loader.Options) { o.SetProjectName("triskele", true) })
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestCompose(t *testing.T) {
	project := composed(t)
	checked := 0
	for name, s := range project.Services {
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is not bound to loopback", name, port.Published)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: mount of %s: %v, read only %v", name, v.Source, err, v.ReadOnly)
			}
		}
		for variable, value := range s.Environment {
			if secret := regexp.MustCompile(`PASSWORD|SECRET|TOKEN`).MatchString(variable); secret && !strings.HasPrefix(*value, "/run/secrets/") {
				t.Errorf("%s: %s has its secret in the environment", name, variable)
			}
		}
		if s.Build != nil {
			checked++
			if arg := s.Build.Args["PROGRAM"]; arg == nil || !strings.HasSuffix(strings.TrimSuffix(s.Image, ":1.0.0"), "/"+*arg) {
				t.Errorf("%s: the image %s is built of another program", name, s.Image)
			}
			if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.User != "" {
				t.Errorf("%s may do more than it has to", name)
			}
		} else if s.HealthCheck == nil && name != "collector" && name != "ready" { // whose images have nothing to ask with
			t.Errorf("%s has no health check", name)
		}
	}
	if checked != 6 {
		t.Errorf("%d programs of ours are built", checked)
	}
}

// TestComposedPrograms starts every container of ours as Docker would.
func TestComposedPrograms(t *testing.T) {
	var all []container
	for _, s := range composed(t).Services {
		c := container{image: s.Image, args: s.Command}
		for name, value := range s.Environment {
			c.environment = append(c.environment, [2]string{name, *value})
		}
		if len(s.Secrets) > 0 {
			c.files = []string{"/run/secrets"}
		}
		all = append(all, c)
	}
	startAll(t, all)
}

// TestComposedNames: whoever is called, by another service or in the configuration of one, is a service.
func TestComposedNames(t *testing.T) {
	project := composed(t)
	called := map[string]bool{}
	look := func(text string) {
		for _, match := range regexp.MustCompile(`(?:@|//|/|"|^)([a-z][a-z-]+):[0-9]+\b`).FindAllStringSubmatch(text, -1) {
			called[match[1]] = true
		}
	}
	for _, s := range project.Services {
		for _, value := range s.Environment {
			look(*value)
		}
		for _, arg := range s.Command {
			look(arg)
		}
	}
	for name, config := range project.Configs {
		var anything map[string]any
		if err := yaml.UnmarshalStrict([]byte(config.Content), &anything); err != nil {
			t.Errorf("configuration %s: %v", name, err)
		}
		look(config.Content)
	}
	for name := range called {
		if _, ok := project.Services[name]; !ok {
			t.Errorf("%s is called, and is no service", name)
		}
	}
	if len(called) < 9 {
		t.Errorf("only %v are called", called)
	}
}
