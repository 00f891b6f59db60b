package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"

	"fitout/hostops"
	"fitout/workflow/journal"
	"fitout/workflow/plan"
)

// Files in a run's directory, beside the plan and the journal.
const (
	answersFile = "answers.yaml"
	startFile   = "start.json" // who started it, and where
	stderrFile  = "runner.log" // what the runner could not say in the journal
	envFile     = "environment"
	refusedFile = "refused.json" // why the runner did not begin
)

// startLimit is how long a runner may take to get going.
const startLimit = 30 * time.Second

// BrokenError says that an earlier run was cut short and still stands.
type BrokenError struct{ Run string }

func (e *BrokenError) Error() string {
	return fmt.Sprintf("run %s was cut short and is neither finished nor undone; first: fitout apply --resume, or fitout rollback %s", e.Run, e.Run)
}

// started is the content of startFile.
type started struct {
	TTY  string    `json:"tty,omitempty"`
	User string    `json:"user,omitempty"`
	At   time.Time `json:"at"`
}

// Start writes p into the directory of a new run and starts its runner, which
// outlives the caller: self is the command line that reaches this program on
// this node ("/usr/local/bin/fitout", maybe with "--root DIR"); "run", the
// id and "--mode MODE" are appended. Start returns when the runner holds the
// lock and has begun, or with *LockedError, *BrokenError or what kept it from
// beginning; then nothing was changed and no run is left behind.
func Start(n *hostops.Node, stateDir string, p *plan.Plan, self []string) (string, error) {
	if o, held := Holder(n); held {
		return "", &LockedError{o}
	}
	broken, err := Unfinished(n, stateDir)
	if err != nil {
		return "", err
	}
	if broken != nil {
		return "", &BrokenError{broken.ID}
	}
	id, err := newDir(n, stateDir)
	if err != nil {
		return "", err
	}
	dir := Dir(stateDir, id)
	err = write(n, stateDir, dir, p)
	if err == nil {
		err = launch(n, dir, journal.ModeRun, self)
	}
	if err != nil {
		if events, rerr := journal.Read(n.Path(dir)); rerr == nil && !journal.Summarise(events).Ended && len(events) > 0 {
			return id, err // it did begin
		}
		_ = n.RemoveAll(dir)
		return "", err
	}
	return id, nil
}

// Resume starts a runner that goes on with a run that was cut short.
func Resume(n *hostops.Node, stateDir, id string, self []string) error {
	return again(n, stateDir, id, journal.ModeResume, self)
}

// StartRollback starts a runner that undoes a run. See [CanRollback].
func StartRollback(n *hostops.Node, stateDir, id string, self []string) error {
	if err := CanRollback(n, stateDir, id); err != nil {
		return err
	}
	return again(n, stateDir, id, journal.ModeRollback, self)
}

func again(n *hostops.Node, stateDir, id string, mode journal.Mode, self []string) error {
	dir := Dir(stateDir, id)
	if !n.Exists(path.Join(dir, plan.File)) {
		return fmt.Errorf("there is no run %s on this node", id)
	}
	if o, held := Holder(n); held {
		return &LockedError{o}
	}
	return launch(n, dir, mode, self)
}

// write fills a new run's directory.
func write(n *hostops.Node, stateDir, dir string, p *plan.Plan) error {
	if p.Answers != nil {
		data, err := yaml.Marshal(p.Answers)
		if err != nil {
			return fmt.Errorf("writing the run's answers: %w", err)
		}
		if err := n.WriteFile(path.Join(dir, answersFile), data, 0o600); err != nil {
			return fmt.Errorf("writing the run's answers: %w", err)
		}
		if err := acceptLicences(n, stateDir, p); err != nil {
			return err
		}
	}
	user := os.Getenv("SUDO_USER")
	if user == "" {
		user = os.Getenv("USER")
	}
	data, err := json.Marshal(started{TTY: tty(), User: user, At: n.Now()})
	if err != nil {
		return fmt.Errorf("writing who started the run: %w", err)
	}
	if err := n.WriteFile(path.Join(dir, startFile), data, 0o600); err != nil {
		return fmt.Errorf("writing who started the run: %w", err)
	}
	return plan.Save(n, dir, p)
}

// tty is the short name of the terminal on standard input, "" for none.
func tty() string {
	name, err := os.Readlink("/proc/self/fd/0")
	if err != nil || !strings.HasPrefix(name, "/dev/") || name == "/dev/null" {
		return ""
	}
	return strings.TrimPrefix(name, "/dev/")
}

// startedOn is the terminal a run was started on.
func startedOn(n *hostops.Node, dir string) string {
	var s started
	data, err := n.ReadFile(path.Join(dir, startFile))
	if err != nil || json.Unmarshal(data, &s) != nil {
		return ""
	}
	return s.TTY
}

// launch starts the runner process and waits until it began.
func launch(n *hostops.Node, dir string, mode journal.Mode, self []string) error {
	if len(self) == 0 {
		return errors.New("starting the runner: no command line was given")
	}
	before, err := journal.Read(n.Path(dir))
	if err != nil {
		return err
	}
	seen := journal.Summarise(before).LastSeq
	_ = n.Remove(path.Join(dir, refusedFile))
	argv := append(append([]string{}, self...), "run", path.Base(dir), "--mode", string(mode))
	exited, err := spawn(n, dir, argv)
	if err != nil {
		return fmt.Errorf("starting the runner: %w", err)
	}
	defer func() { _ = n.Remove(path.Join(dir, envFile)) }()
	return await(n, dir, seen, exited)
}

// spawn starts argv so that it belongs to no terminal and no session: as a
// unit of its own under systemd, else with setsid. exited receives its end
// where that can be known.
func spawn(n *hostops.Node, dir string, argv []string) (exited <-chan error, err error) {
	if unit := systemdRun(n, dir); unit != nil {
		cmd := exec.Command(unit[0], append(unit[1:], argv...)...)
		if out, err := cmd.CombinedOutput(); err == nil {
			return nil, nil
		} else {
			n.Log.Debug("systemd-run did not start the runner; starting it directly", "err", err, "out", string(out))
		}
	}
	stderr, err := os.OpenFile(n.Path(path.Join(dir, stderrFile)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer stderr.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := make(chan error, 1)
	go func() { end <- cmd.Wait() }()
	return end, nil
}

// systemdRun is the command line before the runner's, nil where systemd is not
// in charge. The unit's main process alone gets SIGTERM (it undoes; what it
// started must go on meanwhile), and has five minutes for that at shutdown.
// Type=exec makes systemd-run fail when the program cannot be executed there
// (SELinux forbids init to run one from a home directory).
func systemdRun(n *hostops.Node, dir string) []string {
	if n.Simulated() || !n.Exists("/run/systemd/system") {
		return nil
	}
	name, err := exec.LookPath("systemd-run")
	if err != nil {
		return nil
	}
	args := []string{name, "--quiet", "--collect", "--no-ask-password",
		"--unit=fitout-run-" + path.Base(dir) + "-" + fmt.Sprint(n.Now().UnixMilli()),
		"--description=fitout run " + path.Base(dir),
		"--property=Type=exec", "--property=KillMode=mixed", "--property=TimeoutStopSec=300", "--property=StandardInput=null",
		"--property=StandardOutput=null", "--property=StandardError=append:" + path.Join(dir, stderrFile)}
	// The environment goes by a file: a proxy's password has no place in a
	// process list.
	if err := n.WriteFile(path.Join(dir, envFile), environment(os.Environ()), 0o600); err == nil {
		args = append(args, "--property=EnvironmentFile=-"+path.Join(dir, envFile))
	}
	return append(args, "--")
}

// environment is env as systemd.exec(5) reads an EnvironmentFile. Values that
// hold a newline are left out.
func environment(env []string) []byte {
	var b strings.Builder
	for _, kv := range env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" || strings.ContainsAny(kv, "\n\r") || strings.HasPrefix(k, "SYSTEMD_") || k == "NOTIFY_SOCKET" || k == "INVOCATION_ID" {
			continue
		}
		v = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(v)
		fmt.Fprintf(&b, "%s=\"%s\"\n", k, v)
	}
	return []byte(b.String())
}

// await waits until the runner began, or until it is clear that it does not.
func await(n *hostops.Node, dir string, seen int64, exited <-chan error) error {
	r := journal.Open(n.Path(dir))
	defer r.Close()
	late := time.After(startLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	dead := false
	for {
		events, err := r.Next(0)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Seq > seen && e.Event == journal.Start {
				return nil
			}
		}
		if err := refused(n, dir); err != nil {
			return err
		}
		if dead {
			return fmt.Errorf("the runner ended before it began%s", said(n, dir))
		}
		select {
		case <-exited:
			dead, exited = true, nil // look once more: it may have written its word last
		case <-late:
			return fmt.Errorf("the runner did not begin within %s%s", startLimit, said(n, dir))
		case <-tick.C:
		}
	}
}

// refused is why the runner did not begin, nil when it left no word.
func refused(n *hostops.Node, dir string) error {
	var why refusal
	data, err := n.ReadFile(path.Join(dir, refusedFile))
	if err != nil || json.Unmarshal(data, &why) != nil {
		return nil
	}
	if why.Owner != nil {
		return &LockedError{*why.Owner}
	}
	return &RefusedError{why.Exit, why.Message}
}

// RefusedError says that a runner ended before it changed anything.
type RefusedError struct {
	Exit    int
	Message string
}

func (e *RefusedError) Error() string { return e.Message }

// said is the end of what the runner wrote to its standard error.
func said(n *hostops.Node, dir string) string {
	s, _ := n.ReadString(path.Join(dir, stderrFile))
	if s == "" {
		return ""
	}
	return ": " + s[max(0, len(s)-2000):]
}
