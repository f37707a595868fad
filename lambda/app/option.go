package app

import (
	"context"

	"github.com/idemsk/idemsk/idem/store"
)

// Option adds to a function what not every function has. Packages that offer one say what it adds, such as pgapp.Store.
type Option func(*options)

type options struct{ stores []Store }

// Store is a store whose client not every function carries: the program's main package imports it and passes it to Start.
type Store struct {
	// Name is the value of IDEMSK_STORE that selects the store.
	Name string
	// Read reads the store's variables into c, which has all others already. It leaves what is wrong in v.
	Read func(v *Vars, c *Config)
	// Open returns the store. What it holds open is closed by Base.OnClose.
	Open func(ctx context.Context, b *Base) (store.Store, error)
}

// WithStore adds a store.
func WithStore(s Store) Option { return func(o *options) { o.stores = append(o.stores, s) } }

// passed returns the store of a name among those that were passed, nil if it is not.
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

// imported says how a program gets a store.
func imported(pkg string) string {
	return "a store that this program has: import github.com/idemsk/idemsk/lambda/app/" + pkg + " in its main package, and pass " + pkg +
		".Store() to app.Start"
}
