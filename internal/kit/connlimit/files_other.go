//go:build !linux && !darwin

package connlimit

import "errors"

// OpenFiles is not supported here.
func OpenFiles() (uint64, error) { return 0, errors.ErrUnsupported }
