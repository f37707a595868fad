package dynamofake

import (
	"fmt"
	"net/netip"
	"time"
)

// Config are a server's options. The zero value is fine: no latency, no faults, a free port on 127.0.0.1.
type Config struct {
	// Addr is where Start listens, "127.0.0.1:port" with port 0 for a free one; it has to be a loopback
	// address, since the server does not check credentials. Empty means "127.0.0.1:0".
	Addr string
	// Latency is how long each request waits before it is performed, 0 or more.
	Latency time.Duration
	// Now is the clock for creation times and for the lifetime of transaction tokens; nil means time.Now.
	Now func() time.Time
	// Fault, if set, is asked before each request what shall go wrong with it. The operation is named as in
	// the API ("PutItem"); the body must not be changed, nor kept after the return. It is called
	// concurrently and must not call Close.
	Fault func(operation string, body []byte) Fault
}

// Fault is what goes wrong with a request. The zero value is nothing.
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
