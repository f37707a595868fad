package sqsfake

import (
	"fmt"
	"net/netip"
	"time"
)

// Config configures a Server. The zero value is valid: a free port of 127.0.0.1.
type Config struct {
	// Addr is the address on which Start listens, with port 0 for a free port (default "127.0.0.1:0"). It
	// must be a loopback address, because the server does not check credentials.
	Addr string
	// Now is the clock for visibility timeouts; nil means time.Now.
	Now func() time.Time
}

func (c *Config) validate() error {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	addr, err := netip.ParseAddrPort(c.Addr)
	if err != nil {
		return fmt.Errorf("sqsfake: Addr: %w; want 127.0.0.1:port", err)
	}
	if !addr.Addr().IsLoopback() {
		return fmt.Errorf("sqsfake: Addr is %s, must be a loopback address such as 127.0.0.1:0", c.Addr)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return nil
}
