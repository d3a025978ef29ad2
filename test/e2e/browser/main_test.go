// Package browser tests the pages in Chromium, on whole servers.
package browser

import (
	"testing"

	"seckill/test/e2e/rig"
)

func TestMain(m *testing.M) { rig.Main(m, stopBrowser) }
