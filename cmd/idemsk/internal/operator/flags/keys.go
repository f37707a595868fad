package flags

import (
	"cmp"
	"flag"
	"os"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/command"
	"github.com/idemsk/idemsk/kafka"
)

// Keys are the namespace and topic of keys that are given without them.
type Keys struct {
	Namespace string
	Topic     string
}

// Declare declares the flags. keys names the keys that they are of.
func (k *Keys) Declare(fs *flag.FlagSet, keys string) {
	fs.StringVar(&k.Topic, "topic", "",
		"the `TOPIC` of "+keys+", without the namespace; omit it with IDEMSK_KEY_SCOPE=namespace")
	fs.StringVar(&k.Namespace, "namespace", "",
		"the consumer's `NAMESPACE` of "+keys+": its IDEMSK_NAMESPACE, else its function's name "+
			"(default: IDEMSK_NAMESPACE, if --topic is given)")
}

// Plain reports whether keys are given without their namespace and topic.
func (k *Keys) Plain() bool { return k.Namespace != "" || k.Topic != "" }

// Stored returns the stored form of key.
func (k *Keys) Stored(key string) (string, error) {
	if !k.Plain() {
		return key, nil
	}
	namespace := cmp.Or(k.Namespace, os.Getenv("IDEMSK_NAMESPACE"))
	if namespace == "" {
		return "", command.Usagef(
			"--topic needs --namespace, the consumer's: its IDEMSK_NAMESPACE, else its function's name")
	}
	return kafka.StoredKey(namespace, k.Topic, key), nil
}
