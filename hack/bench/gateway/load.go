package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// load is requests over a number of connections, each of which waits for an answer before it sends the next request.
type load struct {
	address     string
	requests    [][]byte // one of them at random
	connections int
	// once has each of the requests sent once, instead of any of them for a while.
	once bool
	// rate is how many requests a second to send; 0 is as many as are answered.
	rate float64
}

// result is what came of a load.
type result struct {
	took      time.Duration
	latencies []time.Duration // sorted
	failed    int
	err       error // the first
}

func (r *result) requests() int { return len(r.latencies) }

func (r *result) perSecond() float64 { return float64(len(r.latencies)) / r.took.Seconds() }

// quantile returns the latency that a part q of the requests did not exceed.
func (r *result) quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(int(q*float64(len(r.latencies))), len(r.latencies)-1)]
}

// request is what a caller sends for a path.
func request(path string) []byte {
	return fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: functions.example.org\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n", path)
}

// run sends for a while.
func (l load) run(ctx context.Context, duration time.Duration) *result {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	var mu sync.Mutex
	var all sync.WaitGroup
	sum := &result{}
	for i := range l.connections {
		all.Go(func() {
			latencies, err := l.connection(ctx, began, i)
			mu.Lock()
			defer mu.Unlock()
			sum.latencies = append(sum.latencies, latencies...)
			if err != nil {
				sum.failed++
				sum.err = err
			}
		})
	}
	all.Wait()
	sum.took = time.Since(began)
	slices.Sort(sum.latencies)
	return sum
}

// connection sends over one connection until ctx ends; an error ends it early.
func (l load) connection(ctx context.Context, began time.Time, index int) (latencies []time.Duration, err error) {
	conn, err := net.Dial("tcp", l.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	latencies = make([]time.Duration, 0, 1<<12)
	for n := 0; ctx.Err() == nil; n++ {
		next := rand.IntN(len(l.requests))
		if l.once {
			if next = n*l.connections + index; next >= len(l.requests) {
				break
			}
		}
		if l.rate > 0 {
			each := float64(l.connections) / l.rate * float64(time.Second)
			due := began.Add(time.Duration((float64(n) + float64(index)/float64(l.connections)) * each))
			time.Sleep(time.Until(due))
		}
		sent := time.Now()
		if _, err := conn.Write(l.requests[next]); err != nil {
			return latencies, err
		}
		if err := readAnswer(reader); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(sent))
	}
	return latencies, nil
}

var (
	okLine        = []byte("HTTP/1.1 200 ")
	contentLength = []byte("content-length:")
)

// answerBytes is how long the upstream's answers are.
const answerBytes = 1 << 10

// readAnswer reads one answer. Anything but a 200 with the whole of the upstream's body is an error.
func readAnswer(reader *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, okLine) {
			return fmt.Errorf("answered %q", bytes.TrimSpace(line))
		}
		if len(line) <= 2 {
			break
		}
		if len(line) > len(contentLength) && bytes.EqualFold(line[:len(contentLength)], contentLength) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(contentLength):]))); err != nil {
				return err
			}
		}
	}
	if length != answerBytes {
		return fmt.Errorf("an answer of %d bytes", length)
	}
	_, err := reader.Discard(length)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}
