package local

import (
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/idemsk/idemsk/cmd/idemsk/internal/local/esm"
)

// startBroker starts a broker in this process, with the topic and, if the on-failure destination is a topic,
// that one.
func startBroker(o *Options) (*kfake.Cluster, error) {
	listen := func(network, _ string) (net.Listener, error) {
		return net.Listen(network, loopback(o.Ports.Broker))
	}
	topics := o.ESM.Topics
	if topic, ok := esm.KafkaTopic(o.ESM.OnFailure); ok {
		topics = append(topics[:len(topics):len(topics)], topic)
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(int32(o.Partitions), topics...),
		kfake.ListenFn(listen),
		kfake.GroupMinSessionTimeout(ownSession))
	if err != nil {
		return nil, fmt.Errorf("the broker in this process (--broker-port): %w", err)
	}
	return broker, nil
}
