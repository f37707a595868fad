package redisserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/idemsk/idemsk/internal/subprocess"
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
func (c *Cluster) Close() error { return closeAll(c.Nodes) }

func closeAll(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// Sentinels are the Sentinels of a primary. If it fails, they promote a replica.
type Sentinels struct{ all []*Server }

const (
	watched = "keys" // the name of the primary
	quorum  = 2
)

var sentinel = serverproc.Kind{Package: "redisserver", Stop: syscall.SIGTERM, Config: serverproc.Config{
	Ready:      regexp.MustCompile("Sentinel ID is"),
	StartLimit: server.StartLimit, StopLimit: server.StopLimit, Crash: syscall.SIGKILL,
}}

// StartSentinels starts three Sentinels of a primary, and waits until they know each other and its replica.
// The caller must call Close.
func StartSentinels(ctx context.Context, primary *Server) (*Sentinels, error) {
	s := new(Sentinels)
	for range 3 {
		one, err := startSentinel(ctx, primary)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.all = append(s.all, one)
	}
	if err := errors.Join(s.each(ctx, "num-other-sentinels 2"), s.each(ctx, "num-slaves 1")); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func startSentinel(ctx context.Context, primary *Server) (*Server, error) {
	s := &Server{kind: primary.kind, bin: primary.bin}
	var err error
	if s.Server, err = serverproc.NewServer(ctx, sentinel); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nrequirepass %s\nsentinel sentinel-pass %s\n"+
		"sentinel monitor %s 127.0.0.1 %d %d\nsentinel auth-pass %s %s\n"+
		"sentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 5000\n",
		s.Port(), s.Dir(), Password, Password, watched, primary.Port(), quorum, watched, Password, watched, watched)
	file := filepath.Join(s.Dir(), "sentinel.conf") // a Sentinel keeps its state there
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.bin.Program, file, "--sentinel") //nolint:gosec // the server of find
	cmd.Dir, cmd.SysProcAttr = s.Dir(), subprocess.Group(syscall.SIGKILL, nil)
	cmd.Env = serverproc.Environment(s.bin.Env)
	if err := s.Run(ctx, cmd); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// each waits until each Sentinel says this of the primary.
func (s *Sentinels) each(ctx context.Context, says string) error {
	for _, one := range s.all {
		err := one.until(ctx, func(answer string) bool { return strings.Contains(answer, says) }, "SENTINEL",
			"MASTER", watched)
		if err != nil {
			return err
		}
	}
	return nil
}

// Follow waits until each Sentinel names this server as the primary.
func (s *Sentinels) Follow(ctx context.Context, primary *Server) error {
	return s.each(ctx, fmt.Sprintf(" port %d ", primary.Port()))
}

// Failover makes the Sentinels promote a replica although the primary works.
func (s *Sentinels) Failover(ctx context.Context) error {
	_, err := s.all[0].Do(ctx, "SENTINEL", "FAILOVER", watched)
	return err
}

// URL returns a connection string for the user with all permissions of the primary.
func (s *Sentinels) URL() string {
	return fmt.Sprintf("%s?sentinel=%s&addr=%s&addr=%s&sentinel_password=%s", s.all[0].URL(), watched,
		s.all[1].Addr(), s.all[2].Addr(), Password)
}

// Close ends the Sentinels.
func (s *Sentinels) Close() error { return closeAll(s.all) }
