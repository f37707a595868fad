package cli

import (
	"cmp"
	"flag"
	"os"

	"github.com/idemsk/idemsk/kafka"
)

// keyFlags are the namespace and topic of keys that are given without them.
type keyFlags struct {
	namespace string
	topic     string
}

func (k *keyFlags) declare(fs *flag.FlagSet, keys string) {
	fs.StringVar(&k.topic, "topic", "", "the `TOPIC` of "+keys+", without the namespace; omit it with IDEMSK_KEY_SCOPE=namespace")
	fs.StringVar(&k.namespace, "namespace", "", "the consumer's `NAMESPACE` of "+keys+": its IDEMSK_NAMESPACE, else its function's name "+
		"(default: IDEMSK_NAMESPACE, if --topic is given)")
}

// plain reports whether keys are given without their namespace and topic.
func (k *keyFlags) plain() bool { return k.namespace != "" || k.topic != "" }

// stored returns the stored form of key.
func (k *keyFlags) stored(key string) (string, error) {
	if !k.plain() {
		return key, nil
	}
	namespace := cmp.Or(k.namespace, os.Getenv("IDEMSK_NAMESPACE"))
	if namespace == "" {
		return "", usagef("--topic needs --namespace, the consumer's: its IDEMSK_NAMESPACE, else its function's name")
	}
	return kafka.StoredKey(namespace, k.topic, key), nil
}
