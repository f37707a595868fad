package runtimeapi

import (
	"bytes"
	"os"
	"sync"
	"syscall"
)

const (
	readSize = 64 << 10 // the usual capacity of a pipe
	// maxPipe is the maximum number of bytes that one sync reads: the largest default capacity of a pipe on
	// Linux. It includes everything that was written before the sync, and bounds the time of an Invoke if the
	// process prints without end.
	maxPipe  = 1 << 20
	maxLine  = 1 << 20 // longer lines are delivered in pieces
	tailSize = 30      // lines kept for error messages: a Go panic says what it is about well above its end
	tailLine = 500     // bytes kept of each of them
)

// output reads the output of one process.
type output struct {
	// held to read either pipe and to deliver what came of it: so lines come one at a time and in order
	mu      sync.Mutex
	stdout  stream
	stderr  stream
	buffer  []byte
	tail    tail
	readers sync.WaitGroup
}

// stream is one pipe and its incomplete line.
type stream struct {
	read, write *os.File
	conn        syscall.RawConn
	deliver     func([]byte)
	pending     []byte // an unfinished line
}

func newOutput(cfg *Config) (*output, error) {
	o := &output{buffer: make([]byte, readSize)}
	if err := o.stdout.open(cfg.Stdout); err != nil {
		return nil, err
	}
	if err := o.stderr.open(cfg.Stderr); err != nil {
		o.stdout.closeBoth()
		return nil, err
	}
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		o.readers.Go(func() { o.readAll(s) })
	}
	return o, nil
}

func (s *stream) open(deliver func([]byte)) (err error) {
	s.deliver = deliver
	if s.read, s.write, err = os.Pipe(); err != nil {
		return err
	}
	if s.conn, err = s.read.SyscallConn(); err != nil {
		s.closeBoth()
	}
	return err
}

func (s *stream) closeBoth() {
	_ = s.read.Close()
	_ = s.write.Close()
}

// handedOver closes this process's copies of the ends that the child writes to.
func (o *output) handedOver() {
	_ = o.stdout.write.Close()
	_ = o.stderr.write.Close()
}

// readAll delivers all data until this end of the pipe is closed. It always empties the pipe before it waits,
// because the poller only reports new data.
func (o *output) readAll(s *stream) {
	_ = s.conn.Read(func(fd uintptr) (done bool) {
		for o.readOnce(s, fd) > 0 {
		}
		return false
	})
}

// readOnce delivers the data of one read and returns its size, 0 if the pipe is empty or at its end.
func (o *output) readOnce(s *stream, fd uintptr) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		n, err := syscall.Read(int(fd), o.buffer)
		if n > 0 {
			o.take(s, o.buffer[:n])
			return n
		}
		if err != syscall.EINTR {
			return 0
		}
	}
}

// sync delivers the data that is in the pipes. It reads concurrently with readAll and does not wait. When it
// returns, everything that was written before the call has been delivered by one of them.
func (o *output) sync() {
	for _, s := range []*stream{&o.stdout, &o.stderr} {
		_ = s.conn.Control(func(fd uintptr) {
			for total := 0; total < maxPipe; {
				n := o.readOnce(s, fd)
				if n == 0 {
					return
				}
				total += n
			}
		})
	}
}

// finish delivers the remaining data when the process has ended. It does not wait for the end of the pipe,
// because a process that left the group may hold it open.
func (o *output) finish() {
	o.sync()
	o.mu.Lock()
	o.flush(&o.stdout)
	o.flush(&o.stderr)
	o.mu.Unlock()
	o.close()
}

func (o *output) close() {
	_ = o.stdout.read.Close()
	_ = o.stderr.read.Close()
	o.readers.Wait()
}

func (o *output) take(s *stream, chunk []byte) {
	for {
		line, rest, found := bytes.Cut(chunk, []byte{'\n'})
		if !found {
			break
		}
		if len(s.pending) > 0 {
			line = append(s.pending, line...)
			s.pending = line[:0]
		}
		o.line(s, line)
		chunk = rest
	}
	s.pending = append(s.pending, chunk...)
	if len(s.pending) >= maxLine {
		o.flush(s)
	}
}

func (o *output) flush(s *stream) {
	if len(s.pending) > 0 {
		o.line(s, s.pending)
		s.pending = s.pending[:0]
	}
}

func (o *output) line(s *stream, line []byte) {
	o.tail.add(line)
	if s.deliver != nil {
		s.deliver(line)
	}
}

// last returns the last lines that the process printed, oldest first.
func (o *output) last() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.tail.lines()
}

// tail keeps the last lines in buffers that it reuses.
type tail struct {
	ring [tailSize][]byte
	next int // counts the lines ever added
}

func (t *tail) add(line []byte) {
	slot := &t.ring[t.next%tailSize]
	*slot = append((*slot)[:0], line[:min(len(line), tailLine)]...)
	if len(line) > tailLine {
		*slot = append(*slot, "…"...)
	}
	t.next++
}

func (t *tail) lines() []string {
	var lines []string
	for i := max(0, t.next-tailSize); i < t.next; i++ {
		lines = append(lines, string(bytes.ToValidUTF8(t.ring[i%tailSize], []byte("\uFFFD"))))
	}
	return lines
}
