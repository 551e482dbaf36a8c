package telemetry

import "runtime/debug"

// version and commit are what the linker was told, as the Makefile and deploy/Dockerfile do: with several modules in one
// repository, Go itself records no commit, and a container is built without the repository.
var version, commit string

// Version is the program's release and commit, as "1.2.0+0123456789ab"; "devel" is no release.
func Version() string {
	release := version
	if info, ok := debug.ReadBuildInfo(); ok && release == "" && info.Main.Version != "(devel)" {
		release = info.Main.Version // by "go install", of a released module
	}
	if release == "" {
		release = "devel"
	}
	if commit != "" {
		return release + "+" + commit
	}
	return release
}
