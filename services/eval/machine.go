package eval

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine describes the machine that latencies were measured on.
type Machine struct {
	CPU      string  `json:"cpu"`
	Cores    int     `json:"cores"` // logical cores that this process may use
	MemoryGB float64 `json:"memory_gb"`
	OS       string  `json:"os"`
	Go       string  `json:"go"`
}

// String describes the machine in one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %.1f GB; %s; %s", m.CPU, m.Cores, m.MemoryGB, m.OS, m.Go)
}

// ThisMachine describes this machine, as far as the system tells. It has no host name and no path.
func ThisMachine() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if model := systemValue("/proc/cpuinfo", "model name", ":"); model != "" {
		m.CPU = model
	}
	if name := systemValue("/etc/os-release", "PRETTY_NAME", "="); name != "" {
		m.OS = strings.Trim(name, `"`) + ", " + m.OS
	}
	var kib float64
	if _, err := fmt.Sscanf(systemValue("/proc/meminfo", "MemTotal", ":"), "%f kB", &kib); err == nil {
		m.MemoryGB = kib * 1024 / 1e9
	}
	return m
}

// systemValue returns the value of the first line "key<separator>value" of a file, or "".
func systemValue(path, key, separator string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Commit returns the revision that this program was built from, or "" if it is unknown.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += ", modified"
	}
	return revision
}
