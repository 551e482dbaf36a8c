package telemetry

import "runtime/debug"

// version and commit are set by the linker, see the Makefile and deploy/Dockerfile. Go records no commit for several
// modules in one repository, nor in a container.
var version, commit string

// Version returns the release and commit, as "1.2.0+0123456789ab". "devel" is no release.
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
