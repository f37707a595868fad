package local

import "testing"

// On a machine that is not Linux, the functions for Lambda are beside the one that runs here.
func TestTheFunctionOfThisMachine(t *testing.T) {
	t.Parallel()
	for want, got := range map[string]string{
		"handler-amd64": builtName("handler", "linux", "amd64", ""), "handler-arm64-postgres": builtName("handler", "linux", "arm64", "postgres"),
		"handler-darwin-arm64": builtName("handler", "darwin", "arm64", ""), "handler-darwin-arm64-redis": builtName("handler", "darwin", "arm64", "redis"),
	} {
		if got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
}
