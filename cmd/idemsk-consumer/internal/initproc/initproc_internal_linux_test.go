package initproc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes the test binary process 1, or what it runs.
const roleVariable = "INITPROC_TEST_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "process 1":
		os.Exit(beProcess1())
	default:
		os.Exit(beProgram(role))
	}
}

// beProcess1 supervises the program of the arguments. Orphans become the children of this process, as they
// become those of process 1.
func beProcess1() int {
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		panic(errno)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+os.Args[1])
	code, err := supervise(cmd)
	if err != nil {
		panic(err)
	}
	return code
}

func beProgram(role string) int {
	switch role {
	case "leaves orphans":
		const orphans = 20
		for range orphans { // the shell ends before what it has started
			if err := exec.Command("sh", "-c", "sleep 0.01 & (sleep 0.01 &) ; setsid sleep 0.01 &").Run(); err != nil {
				panic(err)
			}
		}
		for deadline := time.Now().Add(time.Minute); ; <-time.After(time.Millisecond) {
			left := children(os.Getppid())
			if len(left) == 1 { // this process
				return 7
			}
			if time.Now().After(deadline) {
				fmt.Println("left:", left)
				return 1
			}
		}
	case "waits for SIGTERM":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		fmt.Println("terminated")
	case "kills itself":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return 0
}

// children returns the children of a process, with their states.
func children(parent int) (all []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, _ := os.ReadFile(file) // it may have ended
		_, behind, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(behind[min(1, len(behind)):], fmt.Sprintf(" %d ", parent)) {
			all = append(all, string(stat[:strings.Index(string(stat), ") ")+3]))
		}
	}
	return all
}

func process1(t *testing.T, program string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], program)
	cmd.Env = append(os.Environ(), roleVariable+"=process 1", "GOCOVERDIR="+t.TempDir())
	return cmd
}

// Process 1 waits for each process that loses its parent, also in another group or session, and ends with the
// exit status of the program, or with that of a shell after a signal.
func TestProcess1(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]int{"leaves orphans": 7, "kills itself": 128 + 9} {
		cmd := process1(t, program)
		out, _ := cmd.CombinedOutput() // its error is the status
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%s: exit status %d, want %d: %s", program, code, want, out)
		}
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	cmd := process1(t, "waits for SIGTERM")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for _, want := range []string{"ready", "terminated"} {
		if lines.Scan(); lines.Text() != want {
			t.Errorf("%q, want %q", lines.Text(), want)
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// In any other process Run returns.
func TestRunReturns(t *testing.T) {
	t.Parallel()
	Run()
}
