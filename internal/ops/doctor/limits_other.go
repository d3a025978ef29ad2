//go:build !linux && !darwin

package doctor

import "errors"

// OpenFiles is not supported here.
func OpenFiles() (uint64, error) { return 0, errors.ErrUnsupported }
