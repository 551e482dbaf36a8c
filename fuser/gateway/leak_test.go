package gateway

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails when the tests of recalls with slow, dead and panicking legs leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
