package salestats

import (
	"testing"

	"go.uber.org/goleak"

	"seckill/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, func() error { return goleak.Find() })
}
