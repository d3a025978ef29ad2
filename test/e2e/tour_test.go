package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"seckill/test/e2e/rig"
	"seckill/test/env"
)

// tourBlock matches a block of commands, and the block of what they print, if that follows.
var tourBlock = regexp.MustCompile("(?s)```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?")

// TestTour runs the commands of docs/tour.md and of its translation, and compares what they print. The commands of terminal
// 1 run beside all others.
func TestTour(t *testing.T) {
	env.Full(t)
	t.Parallel()
	for _, name := range []string{"tour.md", "tour.zh-CN.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile("../../docs/" + name)
			require.NoError(t, err)
			addr := rig.FreeAddr(t)
			blocks := tourBlock.FindAllStringSubmatch(strings.ReplaceAll(string(text), "127.0.0.1:8080", addr), -1)
			require.Len(t, blocks, 7)
			dir := newTourFolder(t)

			server := dir.shell(addr, blocks[0][1])
			var log rig.Buffer
			server.Stdout, server.Stderr = &log, &log
			require.NoError(t, server.Start())
			defer func() {
				_ = server.Process.Signal(os.Interrupt)
				_ = server.Wait()
			}()
			rig.Eventually(t, "the server listens", func() bool {
				return strings.Contains(log.String(), "seckill listens on") && strings.Contains(log.String(), "/docs")
			})
			requirePrinted(t, blocks[0], log.String())

			var script strings.Builder // one shell, because later steps use the functions and variables of earlier ones
			for _, b := range blocks[1:] {
				fmt.Fprintf(&script, "%s\necho '%s'\n", b[1], endOfBlock)
			}
			out, err := dir.shell(addr, script.String()).CombinedOutput()
			require.NoError(t, err)
			printed := strings.Split(string(out), endOfBlock+"\n")
			require.Len(t, printed, len(blocks), string(out))
			for i, b := range blocks[1:] {
				requirePrinted(t, b, printed[i])
			}
		})
	}
}

const endOfBlock = "---- end of the block"

// requirePrinted requires the lines of a block in this order, between which others may be. … stands for any text.
func requirePrinted(t *testing.T, block []string, printed string) {
	t.Helper()
	rest := strings.Split(printed, "\n")
	for want := range strings.Lines(block[2]) {
		want = strings.TrimRight(want, "\n")
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
		found := 0
		for found < len(rest) && !pattern.MatchString(strings.TrimRight(rest[found], " ")) {
			found++
		}
		require.Less(t, found, len(rest), "%q is not printed by\n%s\nwhich prints\n%s", want, block[1], printed)
		rest = rest[found+1:]
	}
}

// tourFolder is the folder in which a newcomer runs the commands.
type tourFolder struct {
	path string
	exe  string // of this test, which is the program if envRunMain is set
}

// newTourFolder returns an empty folder with a go command that builds the program without compiling it.
func newTourFolder(t *testing.T) tourFolder {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := tourFolder{path: t.TempDir(), exe: exe}
	const builder = "#!/bin/sh\n" + `[ "$*" = "build -tags nomsgpack -o seckill ./cmd/seckill" ] && ln -s "$SECKILL_EXE" seckill` + "\n"
	require.NoError(t, os.Mkdir(filepath.Join(dir.path, "bin"), 0o755))                            //nolint:gosec // only this test uses it
	require.NoError(t, os.WriteFile(filepath.Join(dir.path, "bin", "go"), []byte(builder), 0o755)) //nolint:gosec // likewise
	return dir
}

// shell returns a command that runs a script for a server at addr.
func (d tourFolder) shell(addr, script string) *exec.Cmd {
	script = strings.Replace(script, "\n./seckill\n", "\nexec ./seckill\n", 1) // so that the server receives the signal of the test
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = d.path
	cmd.Env = []string{
		rig.EnvRunMain + "=1", "SECKILL_EXE=" + d.exe, "SECKILL_ADDR=" + addr, "PATH=" + filepath.Join(d.path, "bin") + ":" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
	}
	return cmd
}
