//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/idemsk/idemsk/internal/text/words"
)

// inOtherLanguages returns the peers with handlers in Python and Node.js: functions behind the layer, and
// consumer processes.
func (r *runner) inOtherLanguages() []peer {
	python := filepath.Join(r.options.sources, "python")
	node := filepath.Join(r.options.sources, "typescript")
	inPython := []string{filepath.Join(r.options.runtimes, "python", "bin", "python"), "-m", "awslambdaric",
		"function.lambda_handler"}
	inNode := []string{"node",
		filepath.Join(r.options.runtimes, "node", "node_modules", "aws-lambda-ric", "bin", "index.mjs"),
		filepath.Join(node, "function.handler")}
	pythonEnv := []string{"PYTHONPATH=" + python, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"}
	nodeEnv := []string{"NODE_PATH=" + filepath.Join(r.options.runtimes, "web", "node_modules")}
	layered := func(name string, env, runtime []string) peer {
		command := append([]string{r.program("layer"), r.program("idemsk-layer")}, runtime...)
		return peer{name: name, command: command, env: env, key: ourKey, batched: true}
	}
	external := func(name string, env []string, command ...string) peer {
		return peer{name: name, command: append([]string{r.program("external")}, command...), env: env,
			key: ourKey, records: consumerRecords, consumer: true}
	}
	program := r.program("idemsk-consumer")
	return withCallsOf100([]peer{
		layered(layeredPython, pythonEnv, inPython), layered(layeredTypeScript, nil, inNode),
		external(nodeService, nodeEnv, "-service",
			line([]string{"node", filepath.Join(node, "web.cjs")}), program),
		external(nodeFunction, nil, program, "--function", line(inNode)),
		external(pythonService, pythonEnv, "-service",
			line([]string{filepath.Join(r.options.runtimes, "web", "bin", "python"),
				filepath.Join(python, "web.py")}), program),
		external(pythonFunction, pythonEnv, program, "--function", line(inPython)),
	},
		byHand(external(kafkaJS, []string{"BENCH_PARTITIONS=3", "NODE_NO_WARNINGS=1",
			"AWS_SDK_JS_SUPPRESS_MAINTENANCE_MODE_MESSAGE=1"},
			"node", filepath.Join(r.options.cache, "typescript", "loop.mjs"))),
		byHand(external(kafkaPython, nil, filepath.Join(r.options.cache, "python", "bin", "python"),
			filepath.Join(python, "loop.py"))))
}

// withCallsOf100 returns peers, which get one record in a call, each with another that gets 100, and then more peers.
func withCallsOf100(peers []peer, more ...peer) (all []peer) {
	for _, p := range peers {
		all = append(all, p)
		p.name, p.env = of100(p.name), append(slices.Clone(p.env), "IDEMSK_CALL_RECORDS=100")
		all = append(all, p)
	}
	return append(all, more...)
}

// byHand returns a peer whose program is a loop written by hand.
func byHand(p peer) peer {
	p.key, p.records, p.slow = theirKey, loopRecords, true
	return p
}

// line returns a command as one text, from which words.Split makes the same words.
func line(command []string) string {
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = words.Quote(word)
	}
	return strings.Join(quoted, " ")
}
