package tally

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
)

// seedVariable is the environment variable that gives a test its seed.
const seedVariable = "IDEMSK_TEST_SEED"

// Seed is where a test's random choices come from. It does not fix when processes and goroutines do what they do.
type Seed uint64

// NewSeed returns the seed that IDEMSK_TEST_SEED gives, or another one each time, and logs it.
func NewSeed(t testing.TB) Seed {
	t.Helper()
	seed := rand.Uint64() //nolint:gosec // a seed is no secret
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s is %q: want a whole number, as the log of a test has it", seedVariable, given)
		}
	}
	t.Logf("%s=%d gives the same choices again", seedVariable, seed)
	return Seed(seed)
}

// Rand returns a source of choices for one who makes them one after the other. They depend on the seed and the name.
func (s Seed) Rand(name string) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(s), hash(name))) //nolint:gosec // a seed is no secret
}

func hash(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}

// Flaws have a handler fail now and then.
type Flaws struct {
	seed Seed
	name string

	mu    sync.Mutex
	tries map[string]uint64 // by key
}

// Flaws returns the flaws of a handler. Which tries of a key fail depends on the seed, the handler's name and the key, and not
// on what runs beside it.
func (s Seed) Flaws(name string) *Flaws {
	return &Flaws{seed: s, name: name, tries: make(map[string]uint64)}
}

var errFlaw = errors.New("the handler fails after all that it does")

// flawed is how many tries there are to one that fails.
const flawed = 50

// Fail returns an error at about one call of 50. It is safe for concurrent use.
func (f *Flaws) Fail(key string) error {
	f.mu.Lock()
	f.tries[key]++
	try := f.tries[key]
	f.mu.Unlock()
	if f.seed.Rand(f.name+" "+key+" "+strconv.FormatUint(try, 10)).IntN(flawed) == 0 {
		return errFlaw
	}
	return nil
}
