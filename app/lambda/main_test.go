package lambda

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/idemsk/idemsk/app"
)

func TestMain(m *testing.M) {
	if os.Getenv(asFunction) != "" {
		runFunction()
	}
	goleak.VerifyTestMain(m)
}

// vars reads from a map instead of the environment, in a function that Lambda calls ledger unless the map
// says otherwise.
func vars(env map[string]string) *app.Vars {
	return app.NewVars(func(name string) (string, bool) {
		s, ok := env[name]
		if !ok && name == "AWS_LAMBDA_FUNCTION_NAME" {
			return "ledger", true
		}
		return s, ok
	})
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v; want %v", what, got, want)
	}
}
