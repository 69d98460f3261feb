// Command run runs go test with its arguments, and prints progress meanwhile. It ends with what failed first, the slowest tests, and the
// processor time of all processes.
//
//	run [-timings FILE] go test flags and packages…
package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	timings := flag.String("timings", "", "the file that has how long each package took the last time")
	flag.Parse()
	os.Exit(run(*timings, flag.Args()))
}

func run(timings string, args []string) (exitCode int) {
	t := newTally(timings)
	command := exec.Command("go", slices.Concat([]string{"test", "-json", "-timeout", "0"}, args)...)
	command.Stderr = os.Stderr
	command.Env = append(os.Environ(), "GOGC="+cmp.Or(os.Getenv("GOGC"), "400")) // compilers and tests live for a minute, while exporters have their own
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "run go test:", err)
		return 2
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM) // go test gets it too, and ends the tests
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for scan := bufio.NewReader(out); ; {
			line, err := scan.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	watch := newWatch(command.Process.Pid)
	tick := time.NewTicker(time.Second)
	for open := true; open; {
		select {
		case line, more := <-lines:
			if open = more; more {
				t.add(line)
				watch.moved()
			}
		case <-tick.C:
			t.progress()
			watch.check()
		}
	}
	err = command.Wait()
	usage, _ := command.ProcessState.SysUsage().(*syscall.Rusage)
	t.summary(usage)
	if err != nil {
		return cmp.Or(max(command.ProcessState.ExitCode(), 0), 1)
	}
	return 0
}
