package sim_test

import (
	"context"
	"os"

	"github.com/redis/go-redis/v9"
)

// loanScripts are the names of the scripts of a loan between segments, by their hash.
var loanScripts = func() map[string]string {
	hashes := map[string]string{}
	common, err := os.ReadFile("../../internal/admission/lua/common.lua")
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"lend", "borrow"} {
		source, err := os.ReadFile("../../internal/admission/lua/" + name + ".lua")
		if err != nil {
			panic(err)
		}
		hashes[redis.NewScript(string(common)+string(source)).Hash()] = name
	}
	return hashes
}()

// loanHook injects faults into the loans between segments.
type loanHook struct{ w *world }

func (loanHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (loanHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h loanHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		hash, _ := args[1].(string)
		name, loan := loanScripts[hash]
		if loan && name == "borrow" && h.w.gateFault == gateLosesLoan {
			cmd.SetErr(errInjected)
			return errInjected
		}
		err := next(ctx, cmd)
		if stock, ok := args[min(3, len(args)-1)].(string); loan && ok && err == nil && h.w.planted.loan != nil {
			units, _ := cmd.(*redis.Cmd).Int64()
			h.w.planted.loan(h.w, name, stock, units)
		}
		return err
	}
}
