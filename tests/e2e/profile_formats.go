// Two profiles as Go's runtime writes them: go run profile_formats.go CPU.pb.gz HEAP.pb.gz
package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"syscall"
)

var keep [][]byte

// Seconds of CPU time so far: a busy machine must not make for an empty profile.
func cpuTime() float64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Sec) + float64(u.Utime.Usec)/1e6
}

func work(seconds float64) int {
	n := 0
	for end := cpuTime() + seconds; cpuTime() < end; {
		v := make([]int, 2000)
		for i := range v {
			v[i] = (i * 7919) % 2003
		}
		sort.Ints(v)
		n += v[0]
	}
	return n
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	runtime.MemProfileRate = 1
	for i := 1; i <= 100; i++ {
		keep = append(keep, make([]byte, i*100))
	}
	cpu, err := os.Create(os.Args[1])
	check(err)
	check(pprof.StartCPUProfile(cpu))
	work(0.4)
	pprof.StopCPUProfile()
	check(cpu.Close())
	heap, err := os.Create(os.Args[2])
	check(err)
	runtime.GC()
	check(pprof.Lookup("heap").WriteTo(heap, 0))
	check(heap.Close())
	if len(keep) != 100 {
		os.Exit(1)
	}
}
