//go:build !linux && !darwin

package doctor

import "errors"

func openFiles() (uint64, error) { return 0, errors.ErrUnsupported }

func freeDisk(string) (uint64, error) { return 0, errors.ErrUnsupported }
