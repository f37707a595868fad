package verb

import (
	"flag"
	"strconv"
	"time"
)

// secondsVar declares a flag that accepts a number of seconds, as AWS's API does, or a Go duration.
func secondsVar(fs *flag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	fs.Var((*seconds)(d), name, usage)
}

type seconds time.Duration

// Set implements flag.Value.
func (s *seconds) Set(text string) error {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		*s = seconds(time.Duration(n) * time.Second)
		return nil
	}
	d, err := time.ParseDuration(text)
	*s = seconds(d)
	return err
}

// String implements flag.Value.
func (s *seconds) String() string { return time.Duration(*s).String() }
