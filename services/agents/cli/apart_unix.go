//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// apart starts a command in a session of its own, so that it outlives the agent's process group.
func apart(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
