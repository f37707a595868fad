package cli

import (
	"flag"
	"strconv"
	"time"
)

// secondsVar declares a flag for what AWS's API takes in seconds: a number of seconds, or a duration as Go writes it.
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
