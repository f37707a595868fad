package local

import (
	"os"

	"github.com/idemsk/idemsk/app/postgres"
	"github.com/idemsk/idemsk/app/redis"
	"github.com/idemsk/idemsk/cmd/internal/schemaenv"
	"github.com/idemsk/idemsk/internal/layercall/layerproxy"
	"github.com/idemsk/idemsk/internal/text/words"
)

// layerWord is the first argument of a process of this program that is the layer.
const layerWord = "layer"

// RunLayer is called first of all. If this process is the layer, it runs the function's command behind it,
// and does not return. The layer is this program, with all stores, so that it is wherever the tool is.
func RunLayer(args []string) {
	if len(args) > 1 && args[1] == layerWord {
		layerproxy.Main(args[2:], postgres.Store(), redis.Store(), schemaenv.Schemas())
	}
}

// BehindLayer returns the command that runs a function's command behind the layer.
func BehindLayer(function string) (string, error) {
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	return words.Quote(program) + " " + layerWord + " " + function, nil
}
