package main

import (
	"testing"

	"seckill/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
