package get

import (
	"context"
	_ "embed" // delete.txt
	"errors"
	"flag"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/cmd/idemsk/internal/operator/target"
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
			d.declare(fs)
			return d.run
		},
	}
}

// deletion is a run of the verb with its flags.
type deletion struct{ change }

func (d *deletion) run(ctx context.Context, s command.Streams, args []string) error {
	return d.change.run(ctx, s, args, action{
		verb: "delete", question: "Delete this entry? The next record with the key is handled again.",
		allowed: func(*store.Entry) error { return nil }, do: d.remove, done: "the entry is deleted",
	})
}

func (*deletion) remove(ctx context.Context, st *target.Store, shown *store.Entry) error {
	err := st.Delete(ctx, shown.Key, shown.Token)
	var changed *store.FencedError
	switch {
	case errors.As(err, &changed):
		return changedError("nothing was deleted", shown, &changed.Current)
	case err != nil:
		return st.Explain(err)
	}
	return nil
}
