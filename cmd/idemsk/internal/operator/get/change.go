package get

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
)

// change has the flags of a verb that changes the entry of a key.
type change struct {
	target.StoreFlags
	flags.Keys
	yes bool
}

func (c *change) declare(fs *flag.FlagSet) {
	c.StoreFlags.Declare(fs)
	c.Keys.Declare(fs, "KEY")
	fs.BoolVar(&c.yes, "yes", false, "don't ask for confirmation")
}

// action is what a verb does with an entry.
type action struct {
	verb, question string
	allowed        func(*store.Entry) error // an error says why this entry is not changed
	do             func(ctx context.Context, st *target.Store, shown *store.Entry) error
	done           string // is said afterwards
}

// run shows the entry of the one argument, and changes it after a confirmation.
func (c *change) run(ctx context.Context, s command.Streams, args []string, a action) error {
	if !c.yes && !term.IsTerminal(s.In) {
		return command.Usagef("standard input is not a terminal: give --yes")
	}
	entry, st, err := lookUp(ctx, &c.StoreFlags, &c.Keys, args)
	if err != nil {
		return err
	}
	defer st.Close()
	if _, err := fmt.Fprint(s.Out, recordTable(&entry, time.Now())); err != nil {
		return err
	}
	if err := a.allowed(&entry); err != nil {
		return err
	}
	if !c.yes {
		ok, err := command.Confirm(ctx, s, a.question)
		if !ok || err != nil {
			s.Sayf("idemsk %s: nothing was done\n", a.verb)
			return err
		}
	}
	if err := a.do(ctx, st, &entry); err != nil {
		return err
	}
	s.Sayf("idemsk %s: %s\n", a.verb, a.done)
	return nil
}

// changedError means that an entry is not as it was shown. nothing says that it was left as it is.
func changedError(nothing string, shown, now *store.Entry) error {
	return fmt.Errorf("%s: the entry is now %s with token %d, and the one shown had %d: look at it again", nothing,
		now.Status, now.Token, shown.Token)
}
