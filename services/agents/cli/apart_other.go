//go:build !unix

package cli

import "os/exec"

// apart does nothing: a process of Windows outlives the one that started it.
func apart(*exec.Cmd) {}
