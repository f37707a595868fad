package dynamofake

import (
	"fmt"
	"net/netip"
	"time"
)

// Config are the options of a server. The zero value is valid: no latency, no faults, a free port on
// 127.0.0.1.
type Config struct {
	// Addr is the address that Start listens on (default "127.0.0.1:0", a free port). It must be a loopback
	// address, because the server does not check credentials.
	Addr string
	// Latency delays each request before it is performed. It is 0 or more.
	Latency time.Duration
	// Now is the clock of creation times and of the lifetime of transaction tokens (default time.Now).
	Now func() time.Time
	// Fault, if set, is called before each request and returns the fault to inject. The operation is named as
	// in the API ("PutItem"). Fault must neither change the body nor keep it after its return. It is called
	// concurrently and must not call Close.
	Fault func(operation string, body []byte) Fault
	// Observe, if set, is called for each write of an item that is performed or that its condition refuses,
	// in the order of the writes. A transaction that is refused is observed with the writes whose own
	// conditions fail. Observe must return soon, must not call the server, and must not keep the Write.
	Observe func(w *Write)
}

// Fault is an injected fault of a request. The zero value is none.
type Fault struct {
	Delay      time.Duration // waited before the request is performed, on top of the latency
	Error      *Error        // answered instead of performing the request
	ReplyDelay time.Duration // waited between performing the request and answering it
	DropReply  bool          // the connection is closed instead of an answer: the reply is lost
}

func (c *Config) validate() error {
	if c.Latency < 0 {
		return fmt.Errorf("dynamofake: Latency is %v, must be 0 or more", c.Latency)
	}
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil {
		return fmt.Errorf("dynamofake: Addr: %w; want 127.0.0.1:port", err)
	}
	if !addr.Addr().IsLoopback() {
		return fmt.Errorf("dynamofake: Addr is %s, must be a loopback address such as 127.0.0.1:0", c.Addr)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
