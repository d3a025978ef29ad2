package sim

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

// scripts are the names of the gate's and the ids' scripts, by their hash.
var scripts = func() map[string]string {
	hashes := map[string]string{}
	for _, dir := range []string{"sale/admission/lua", "idgen"} {
		common, _ := os.ReadFile(filepath.Join("../../internal", dir, "common.lua")) // the ids have none
		files, err := filepath.Glob(filepath.Join("../../internal", dir, "*.lua"))
		if err != nil || len(files) == 0 {
			panic("no scripts in " + dir)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				panic(err)
			}
			hashes[redis.NewScript(string(common)+string(source)).Hash()] = strings.TrimSuffix(filepath.Base(file), ".lua")
		}
	}
	return hashes
}()

// redisHook injects faults into the commands that Redis executes: those of the step, and those that are planted.
type redisHook struct{ w *world }

func (redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w, args := h.w, cmd.Args()
		if w.planted.command != nil {
			w.planted.command(args)
		}
		if cmd.Name() == "xreadgroup" && w.reads.Add(1) > 5 {
			w.stopReading()
		}
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}

		hash, _ := args[1].(string)
		name := scripts[hash]
		if name == "borrow" && w.gateFault == gateLosesLoan {
			cmd.SetErr(errInjected)
			return errInjected
		}

		err := next(ctx, cmd)
		reply, script := cmd.(*redis.Cmd)
		if err == nil && script && w.planted.script != nil {
			w.planted.script(w, name, args[3:], reply)
		}

		// The gate repeats a call without a reply until it gets one.
		if err == nil && name == "reserve" && w.gateFault == gateRepeats && w.repeats.Add(1) <= 2 {
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return err
	}
}
