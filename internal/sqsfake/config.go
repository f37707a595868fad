package sqsfake

import (
	"fmt"
	"net/netip"
	"time"
)

// Config are a server's options. The zero value is fine: a free port on 127.0.0.1.
type Config struct {
	// Addr is where Start listens, "127.0.0.1:port" with port 0 for a free one; it has to be a loopback address, since the
	// server does not check credentials. Empty means "127.0.0.1:0".
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
