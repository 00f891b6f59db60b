package host

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	yaml "go.yaml.in/yaml/v3"

	"fitout/hostops"
)

// The stages of elemental-toolkit that fitout hooks into, v1 and v2 alike.
var chrootStages = []string{"after-upgrade-chroot", "after-install-chroot", "after-reset-chroot"}

// maxCommand is below what one argument of sh -c may hold (MAX_ARG_STRLEN is
// 131072; 131031 bytes ran, 131082 did not).
const maxCommand = 128000

// oemStep is one step of a stage: commands only. Files, systemctl and modules
// have their own traps in both executors.
type oemStep struct {
	stage, name, command string
}

// hookSteps are what a driver's file in /oem does. Every step stands alone:
// the executor promises no order between files.
func hookSteps(l Layout, d Driver, where string, gate bool) []oemStep {
	var steps []oemStep
	step := func(stage, command string) {
		steps = append(steps, oemStep{stage, "fitout " + d.Name + " " + stage, command})
	}
	if where == "os-image" || gate {
		verb := "after-upgrade"
		if where != "os-image" {
			verb = "check-upgrade"
		}
		for _, s := range chrootStages {
			step(s, chrootCommand(l, d.Name, verb, s))
		}
	}
	conf := path.Join(l.State, "modprobe.d", "fitout-"+d.Name+".conf")
	early := fmt.Sprintf("mkdir -p /run/modprobe.d && cp %s /run/modprobe.d/ || echo '<3>fitout: %s is missing, driver %s will not be loaded' > /dev/kmsg", conf, conf, d.Name)
	if d.Early {
		for _, m := range d.Load {
			early += "; /sbin/modprobe " + m
		}
	}
	step("initramfs", early)
	step("boot", fmt.Sprintf("exec %s hook boot --state %s </dev/null", l.bin(), l.State))
	step("fitout-selftest", fmt.Sprintf("mkdir -p /run/fitout && : > /run/fitout/selftest-%s", d.Name))
	return steps
}

// chrootCommand calls the hook program from inside the upgrade's chroot, where
// the state directory is seen under other paths than on the running system.
// It runs in the foreground and asks nothing of uname -r.
func chrootCommand(l Layout, driver, verb, stage string) string {
	return fmt.Sprintf("for s in %s; do if [ -x $s/bin/fitout ]; then exec $s/bin/fitout hook %s --state $s --driver %s --stage %s </dev/null; fi; done; echo 'fitout: the program is not reachable from this chroot, driver %s is NOT in the new image' >&2; exit 7",
		strings.Join(l.ChrootState, " "), verb, driver, stage, driver)
}

// holdSteps is the guard of a Harvester node: the job has no deadline, so the
// upgrade can be held until the build arrives or the administrator lets go.
func holdSteps(l Layout) []oemStep {
	return []oemStep{{"before-upgrade", "fitout hold before-upgrade",
		fmt.Sprintf("if [ -x %s ]; then exec %s hook before-upgrade --state %s --limit 2h --every 30s </dev/null; fi; echo 'fitout: %s is missing, the new kernel is NOT checked for drivers' >&2; exit 7", l.bin(), l.bin(), l.State, l.bin())}}
}

// hookFile marshals steps as a hook file. Strings are double-quoted, so no
// executor's YAML takes one for something else.
func hookFile(name, comment string, steps []oemStep) ([]byte, error) {
	str := func(s string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s, Style: yaml.DoubleQuotedStyle}
	}
	key := func(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s} }
	stages := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range steps {
		item := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
			key("name"), str(s.name),
			key("commands"), {Kind: yaml.SequenceNode, Content: []*yaml.Node{str(s.command)}},
		}}
		stages.Content = append(stages.Content, key(s.stage), &yaml.Node{Kind: yaml.SequenceNode, Content: []*yaml.Node{item}})
	}
	doc := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{key("name"), str(name), key("stages"), stages}}
	var b bytes.Buffer
	b.WriteString("# " + comment + "\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), CheckHook(b.Bytes())
}

// executorFile is a hook file as both executors decode it: unknown keys are
// ignored, a wrong type rejects the file (yip's schema, versions 1.4 and 1.9).
type executorFile struct {
	Name   string                    `yaml:"name"`
	Stages map[string][]executorStep `yaml:"stages"`
}

type executorStep struct {
	Name        string              `yaml:"name"`
	If          string              `yaml:"if"`
	Node        string              `yaml:"node"`
	Hostname    string              `yaml:"hostname"`
	Commands    []string            `yaml:"commands"`
	Files       []executorPath      `yaml:"files"`
	Directories []executorPath      `yaml:"directories"`
	Downloads   []executorPath      `yaml:"downloads"`
	Sysctl      map[string]string   `yaml:"sysctl"`
	SSHKeys     map[string][]string `yaml:"authorized_keys"`
	Environment map[string]string   `yaml:"environment"`
	Modules     []string            `yaml:"modules"`
	Systemctl   struct {
		Enable  []string `yaml:"enable"`
		Disable []string `yaml:"disable"`
		Start   []string `yaml:"start"`
		Mask    []string `yaml:"mask"`
	} `yaml:"systemctl"`
}

type executorPath struct {
	Path        string `yaml:"path"`
	URL         string `yaml:"url"`
	Content     string `yaml:"content"`
	Encoding    string `yaml:"encoding"`
	Permissions uint32 `yaml:"permissions"`
	Owner       int    `yaml:"owner"`
	Group       int    `yaml:"group"`
	Timeout     int    `yaml:"timeout"`
	OwnerString string `yaml:"ownerstring"`
}

// parseHook decodes a hook file as the executors do.
func parseHook(text []byte) (*executorFile, error) {
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("it is not valid UTF-8")
	}
	// A cloud-config file has its own reader; its shape is the cloud's.
	if bytes.HasPrefix(text, []byte("#cloud-config")) {
		var any map[string]any
		return &executorFile{}, yaml.Unmarshal(text, &any)
	}
	var f executorFile
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	return &f, nil
}

// CheckHook re-parses one of fitout's hook files and holds it to what both
// executors can take: unique names, commands only, no templates, no command
// too long for one argument, every string quoted.
func CheckHook(text []byte) error {
	f, err := parseHook(text)
	if err != nil {
		return fmt.Errorf("checking the hook file: %w", err)
	}
	if bytes.Contains(text, []byte("{{")) {
		return fmt.Errorf("checking the hook file: it contains \"{{\", which the executor would take for a template")
	}
	if f.Name == "" || len(f.Stages) == 0 {
		return fmt.Errorf("checking the hook file: it needs a name and stages")
	}
	seen := map[string]bool{}
	for stage, steps := range f.Stages {
		for _, s := range steps {
			switch {
			case s.Name == "" || seen[s.Name]:
				return fmt.Errorf("checking the hook file: step name %q of stage %s is empty or used twice; the executor would drop a step", s.Name, stage)
			case len(s.Commands) == 0:
				return fmt.Errorf("checking the hook file: step %q has no command", s.Name)
			case len(s.Files)+len(s.Modules)+len(s.Systemctl.Start) > 0:
				return fmt.Errorf("checking the hook file: step %q has more than commands", s.Name)
			}
			seen[s.Name] = true
			for _, c := range s.Commands {
				if len(c) >= maxCommand {
					return fmt.Errorf("checking the hook file: a command of step %q has %d bytes, the limit is %d", s.Name, len(c), maxCommand)
				}
			}
		}
	}
	return checkQuoted(text)
}

// checkQuoted: a command written as a plain scalar may be taken for a map
// (": " in it) or a boolean by another YAML version.
func checkQuoted(text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	var walk func(*yaml.Node) error
	walk = func(n *yaml.Node) error {
		if n.Kind == yaml.SequenceNode {
			for _, c := range n.Content {
				if c.Kind == yaml.ScalarNode && c.Style != yaml.DoubleQuotedStyle && c.Style != yaml.LiteralStyle {
					return fmt.Errorf("checking the hook file: line %d is not a quoted string", c.Line)
				}
			}
		}
		for _, c := range n.Content {
			if err := walk(c); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(&doc)
}

// BrokenHook is a file in /oem that the executor cannot read.
type BrokenHook struct {
	Path string
	Err  error
}

// BrokenHooks finds the files below a hook directory that would not load, and
// the paths of those that do, by their top-level name. Toolkit v1 then runs no
// file of the directory at all, v2 leaves out the broken one.
func BrokenHooks(n *hostops.Node, dir string) (broken []BrokenHook, names map[string]string, err error) {
	names = map[string]string{}
	files, err := hookFiles(n, dir)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range files {
		b, err := n.ReadFile(p)
		if err != nil {
			broken = append(broken, BrokenHook{p, err})
			continue
		}
		f, err := parseHook(b)
		if err != nil {
			broken = append(broken, BrokenHook{p, err})
			continue
		}
		if f.Name != "" {
			names[f.Name] = p
		}
	}
	return broken, names, nil
}

// hookFiles are the files the executors read: any depth, hidden ones too, by
// the exact endings .yaml and .yml; linked directories are not entered.
func hookFiles(n *hostops.Node, dir string) ([]string, error) {
	entries, err := n.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	var out []string
	for _, e := range entries {
		p := path.Join(dir, e.Name())
		if e.IsDir() {
			if e.Name() == "lost+found" {
				continue
			}
			sub, err := hookFiles(n, p)
			if err != nil {
				return nil, err
			}
			out = append(out, sub...)
		} else if strings.HasSuffix(p, ".yaml") || strings.HasSuffix(p, ".yml") {
			out = append(out, p)
		}
	}
	return out, nil
}
