package doctor

import (
	"context"
	"fmt"
)

// Machine returns the check of the local machine, whose limit of open files is that of a server only if the server runs
// in the same place. [OpenFiles] returns the limit.
func Machine(files func() (uint64, error)) Group {
	check := func(context.Context) Result { return filesResult(files()) }
	return Group{Checks: []Check{{Name: "machine.files", Run: check}}}
}

// Thresholds of open files. Each buyer's connection and each event stream, of which there may be 20,000, takes one, as
// does each connection to the database and to Redis.
const (
	filesWarn = 32_768
	filesFail = 1024
)

func filesResult(files uint64, err error) Result {
	if err != nil {
		return FromError(Skipped, "", "the limit of open files cannot be read: ", err)
	}

	const change = "ulimit -n 65536 before the start (LimitNOFILE= in systemd, ulimits: nofile in compose)"
	found := fmt.Sprintf("at most %d open files; 20,000 event streams and other connections need about %d", files, filesWarn)

	switch {
	case files < filesFail:
		return Bad(Fail, change, "%s", found)
	case files < filesWarn:
		return Bad(Warn, change, "%s", found)
	}

	return Good("at most %d open files", files)
}
