package get

import (
	"context"
	_ "embed" // delete.txt
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/flags"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/term"
	"github.com/idemsk/idemsk/idem/store"
)

//go:embed delete.txt
var deleteHelp string

// DeleteVerb returns the verb delete.
func DeleteVerb() command.Verb {
	return command.Verb{
		Name: "delete", Short: "deletes the stored entry of a key", Help: deleteHelp,
		Flags: func(fs *flag.FlagSet) command.Action {
			var d deletion
			d.StoreFlags.Declare(fs)
			d.Keys.Declare(fs, "KEY")
			fs.BoolVar(&d.yes, "yes", false, "don't ask for confirmation")
			return d.run
		},
	}
}

// deletion is a run of the verb with its flags.
type deletion struct {
	target.StoreFlags
	flags.Keys
	yes bool
}

func (d *deletion) run(ctx context.Context, s command.Streams, args []string) error {
	if !d.yes && !term.IsTerminal(s.In) {
		return command.Usagef("standard input is not a terminal: give --yes")
	}
	entry, st, err := lookUp(ctx, &d.StoreFlags, &d.Keys, args)
	if err != nil {
		return err
	}
	defer st.Close()
	if _, err := fmt.Fprint(s.Out, recordTable(&entry, time.Now())); err != nil {
		return err
	}
	if !d.yes {
		ok, err := command.Confirm(ctx, s, "Delete this entry? The next record with the key is handled again.")
		if !ok || err != nil {
			s.Sayf("idemsk delete: nothing was done\n")
			return err
		}
	}
	err = st.Delete(ctx, entry.Key, entry.Token)
	var changed *store.FencedError
	switch {
	case errors.As(err, &changed):
		return fmt.Errorf("nothing was deleted: the entry is now %s with token %d, and the one shown had %d: look at it again",
			changed.Current.Status, changed.Current.Token, entry.Token)
	case err != nil:
		return st.Explain(err)
	}
	s.Sayf("idemsk delete: the entry is deleted\n")
	return nil
}
