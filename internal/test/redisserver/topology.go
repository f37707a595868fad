package redisserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/idemsk/idemsk/internal/subprocess/serverproc"
)

// Replica starts a server of the same kind and settings that replicates this one. It is read-only until it is
// promoted. Replica returns when the replica has all data.
func (s *Server) Replica(ctx context.Context) (*Server, error) {
	settings := maps.Clone(s.settings)
	settings["replicaof"] = "127.0.0.1 " + strconv.Itoa(s.Port())
	replica, err := Start(ctx, Config{Kind: s.kind, Settings: settings})
	if err != nil {
		return nil, err
	}
	if err := replica.InStep(ctx); err != nil {
		return nil, errors.Join(err, replica.Close())
	}
	return replica, nil
}

// InStep waits until a replica is connected to its primary and has the primary's data of the time of the
// call.
func (s *Server) InStep(ctx context.Context) error {
	return s.until(ctx, func(info string) bool { return strings.Contains(info, "master_link_status:up") },
		"INFO", "replication")
}

// Promote makes a replica a primary.
func (s *Server) Promote(ctx context.Context) error {
	delete(s.settings, "replicaof") // a restart must not undo it
	_, err := s.Do(ctx, "REPLICAOF", "NO", "ONE")
	return err
}

const slots = 16384

// Cluster is a set of primaries that share the slots.
type Cluster struct{ Nodes []*Server }

// StartCluster starts a cluster of three primaries without replicas. The caller must call Close.
func StartCluster(ctx context.Context, cfg Config) (*Cluster, error) {
	const primaries = 3 // the fewest that Redis supports
	c := &Cluster{}
	for range primaries {
		node, err := startNode(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.Nodes = append(c.Nodes, node)
	}
	if err := c.join(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func startNode(ctx context.Context, cfg Config) (*Server, error) {
	bus, err := serverproc.FreePort(ctx)
	if err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	settings := map[string]string{"cluster-enabled": "yes", "cluster-port": strconv.Itoa(bus),
		"cluster-config-file": "nodes.conf"}
	maps.Copy(settings, cfg.Settings)
	return Start(ctx, Config{Kind: cfg.Kind, Settings: settings})
}

// join assigns slots to each node, and waits until all nodes know each other.
func (c *Cluster) join(ctx context.Context) error {
	n := len(c.Nodes)
	for i, node := range c.Nodes {
		if _, err := node.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slots/n, (i+1)*slots/n-1); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		first := c.Nodes[0]
		if _, err := node.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first.Port(),
			first.settings["cluster-port"]); err != nil {
			return err
		}
	}
	for _, node := range c.Nodes {
		err := node.until(ctx, func(info string) bool {
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(slots))
		}, "CLUSTER", "INFO")
		if err != nil {
			return err
		}
	}
	return nil
}

// URL returns a connection string that names the first node.
func (c *Cluster) URL() string { return c.Nodes[0].URL() + "?cluster=true" }

// Close ends the nodes and deletes their data.
func (c *Cluster) Close() error {
	var errs []error
	for _, node := range c.Nodes {
		errs = append(errs, node.Close())
	}
	return errors.Join(errs...)
}
