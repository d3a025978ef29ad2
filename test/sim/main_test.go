package sim

import (
	"testing"

	"go.uber.org/goleak"

	"seckill/test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, func() error { return goleak.Find() })
}
