//go:build !unix

package servers

import (
	"errors"
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func freeze(*os.Process, bool) error { return errors.ErrUnsupported }

func limitFiles(*os.Process, uint64) error { return errors.ErrUnsupported }

func freeMemory(string) uint64 { return 0 }
