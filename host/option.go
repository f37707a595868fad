package host

import (
	"context"

	"github.com/idemsk/idemsk/idem/store"
)

// Option adds an optional part to a program, such as pgapp.Store.
type Option func(*options)

type options struct{ stores []Store }

// Store is a store whose client is not part of every program. The program's main package imports it and passes it to Start.
type Store struct {
	// Name is the value of IDEMSK_STORE that selects the store.
	Name string
	// Read reads the store's variables into c, which has all other values already. It reports errors to v.
	Read func(v *Vars, c *Config)
	// Open returns the store. It registers its resources with Base.OnClose.
	Open func(ctx context.Context, b *Base) (store.Store, error)
}

// WithStore adds a store.
func WithStore(s Store) Option { return func(o *options) { o.stores = append(o.stores, s) } }

// passed returns the store with a name from the options, nil if there is none.
func passed(given []Option, name string) *Store {
	var o options
	for _, add := range given {
		add(&o)
	}
	for i := range o.stores {
		if o.stores[i].Name == name {
			return &o.stores[i]
		}
	}
	return nil
}

// imported describes how a program adds a store.
func imported(pkg string) string {
	return "a store that this program has: import github.com/idemsk/idemsk/lambda/app/" + pkg + " in its main package, and pass " + pkg +
		".Store() to Start"
}
