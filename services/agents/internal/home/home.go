// Package home names the folders of a user on each platform.
package home

import (
	"errors"
	"path/filepath"
)

// Home is a user's home on a platform, as environment variables name it.
type Home struct {
	GOOS   string
	Getenv func(string) string
}

// Under returns the folder that a variable names, or else one in the home folder. No variable is "".
func (h Home) Under(variable string, elements ...string) (string, error) {
	if variable != "" {
		if folder := h.Getenv(variable); filepath.IsAbs(folder) {
			return folder, nil
		}
	}
	home := "HOME"
	if h.GOOS == "windows" {
		home = "USERPROFILE"
	}
	if !filepath.IsAbs(h.Getenv(home)) {
		return "", errors.New("the home folder is unknown: " + home + " is not set")
	}
	return filepath.Join(append([]string{h.Getenv(home)}, elements...)...), nil
}

// Settings returns the folder of a program's settings.
func (h Home) Settings(program string) (string, error) {
	return h.of(program, "APPDATA", "Roaming", "XDG_CONFIG_HOME", ".config")
}

// Data returns the folder of a program's data.
func (h Home) Data(program string) (string, error) {
	return h.of(program, "LocalAppData", "Local", "XDG_DATA_HOME", ".local", "share")
}

// State returns the folder of what a program keeps between runs.
func (h Home) State(program string) (string, error) {
	return h.of(program, "LocalAppData", "Local", "XDG_STATE_HOME", ".local", "state")
}

// of returns a program's folder: on Windows in AppData, on other systems than macOS where a variable of XDG says.
func (h Home) of(program, windows, below, xdg string, elements ...string) (folder string, err error) {
	switch h.GOOS {
	case "darwin":
		folder, err = h.Under("", "Library", "Application Support")
	case "windows":
		folder, err = h.Under(windows, "AppData", below)
	default:
		folder, err = h.Under(xdg, elements...)
	}
	return filepath.Join(folder, program), err
}
