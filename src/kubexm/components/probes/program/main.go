// Command kubexm-probe measures what users of a Kubernetes cluster experience while something is done to it.
//
//	kubexm-probe agent DIR       measure what DIR/config.json asks for and keep DIR/record.json
//	kubexm-probe serve           answer HTTP on :8080 and echo UDP and TCP on :18731, in pods
//	kubexm-probe burn SECONDS    keep every core busy
//	kubexm-probe sleep SECONDS   wait; for preStop hooks of images without a shell
//
// It needs nothing but the kernel and takes no secrets as arguments.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "kubexm-probe: %v\n", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	usage := fmt.Errorf("usage: kubexm-probe agent DIR | serve | burn SECONDS | sleep SECONDS")
	switch {
	case len(args) == 1 && args[0] == "serve":
		return serve(ctx)
	case len(args) != 2:
		return usage
	case args[0] == "agent":
		return runAgent(ctx, args[1])
	}
	seconds, err := strconv.ParseFloat(args[1], 64)
	if err != nil || seconds < 0 {
		return usage
	}
	limited, stop := context.WithTimeout(ctx, time.Duration(seconds*float64(time.Second)))
	defer stop()
	switch args[0] {
	case "burn":
		burn(limited)
	case "sleep":
		<-limited.Done()
	default:
		return usage
	}
	return nil
}

// burn keeps every core busy until the context ends.
func burn(ctx context.Context) {
	for range runtime.NumCPU() {
		go func() {
			for x := 1.0; ctx.Err() == nil; {
				for range 1_000_000 {
					x = x*1.0000001 + 1e-9
				}
			}
		}()
	}
	<-ctx.Done()
}
