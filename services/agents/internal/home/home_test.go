package home_test

import (
	"path/filepath"
	"testing"

	"github.com/triskele/triskele/services/agents/internal/home"
)

func TestData(t *testing.T) {
	t.Parallel()
	ada := map[string]string{"HOME": "/home/ada", "LocalAppData": "/users/ada/local"}
	for _, test := range []struct {
		goos string
		env  map[string]string
		want string
	}{
		{"linux", ada, "/home/ada/.local/share/triskele"},
		{"linux", map[string]string{"HOME": "/home/ada", "XDG_DATA_HOME": "/data"}, "/data/triskele"},
		{"linux", map[string]string{"HOME": "/home/ada", "XDG_DATA_HOME": "relative"}, "/home/ada/.local/share/triskele"},
		{"darwin", ada, "/home/ada/Library/Application Support/triskele"},
		{"windows", ada, "/users/ada/local/triskele"},
		{"linux", nil, ""},
		{"windows", nil, ""},
	} {
		got, err := home.Home{GOOS: test.goos, Getenv: func(name string) string { return test.env[name] }}.Data("triskele")
		if (err != nil) != (test.want == "") || err == nil && filepath.ToSlash(got) != test.want {
			t.Errorf("%s %v: %q, %v", test.goos, test.env, got, err)
		}
	}
}
