// Package cli is the command line of seckill: one file per command, each with its flags and its output.
package cli
