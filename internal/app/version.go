package app

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// release is set by the build of a release: go build -ldflags "-X seckill/internal/app.release=1.2.3".
var release string

// Version returns the version of a release, such as 1.2.3, otherwise the version that the go command recorded, such as
// v0.0.0-20261122230000-0123456789ab, and devel if there is none. It contains no spaces.
var Version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(release, info)
})

// VersionDetails returns the version and, if the go command recorded it, the commit and its time, as
// "1.2.3 (commit 0123456789ab of 2026-11-22T23:00:00Z)".
func VersionDetails() string {
	info, _ := debug.ReadBuildInfo()
	return versionDetailsOf(Version(), info)
}

func versionDetailsOf(version string, info *debug.BuildInfo) string {
	recorded := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			recorded[s.Key] = s.Value
		}
	}

	const shortCommit = 12
	commit := recorded["vcs.revision"]
	if len(commit) < shortCommit {
		return version
	}

	return fmt.Sprintf("%s (commit %s of %s)", version, commit[:shortCommit], recorded["vcs.time"])
}

func versionOf(release string, info *debug.BuildInfo) string {
	switch {
	case release != "":
		return release
	case info == nil || info.Main.Version == "" || info.Main.Version == "(devel)":
		return "devel"
	}
	return info.Main.Version
}

// UserAgent returns the User-Agent of the program's HTTP requests, such as seckill/1.2.3.
func UserAgent() string { return "seckill/" + Version() }
