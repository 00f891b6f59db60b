// Command machine boots a throw-away machine for a person: a Debian kernel that
// lacks the driver of a card that is there, a registry on this host with an
// image that has it, and the machine's serial console on this terminal.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fitout/testdata/images"
	"fitout/testdata/program"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// options are the flags.
type options struct {
	kernel, fitout, exec, command, cmdline string
	devices, remove                        []string
	archive, bare                          bool
	memory                                 int
}

// exitCode is the exit code of a command that ran on the machine.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(e)) }

func main() {
	err := command().Execute()
	var code exitCode
	switch {
	case errors.As(err, &code):
		os.Exit(int(code))
	case err != nil:
		fmt.Fprintln(os.Stderr, "machine:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run [flags]",
		Short: "Boot a throw-away machine with fitout on it",
		Long: `Boot a throw-away machine with fitout on it, under QEMU's software emulation.

Its kernel is Debian's; the modules named with --remove are taken out, and an
image that has them is served by a registry on this host, which the machine
reaches at registry.local:5000. The machine's serial console is opened on this
terminal: log in is automatic, Ctrl-] cuts the machine off, "poweroff" ends it in
order. Nothing of it stays.`,
		Example: `  testdata/vm/run
  testdata/vm/run --kernel plus --device nvme,serial=one,addr=06.0 --remove nvme
  testdata/vm/run --archive --exec fitout
  testdata/vm/run --command 'fitout devices'`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(*cobra.Command, []string) error { return o.run() },
	}
	f := cmd.Flags()
	f.StringVar(&o.kernel, "kernel", "stock", "stock, cloud, rt, plus (6.12, a + in its release), or a release of the mirror")
	f.StringArrayVar(&o.devices, "device", []string{"e1000e,addr=05.0"}, "a device, as QEMU's -device takes it (repeat); slots 03 to 0f are free")
	f.StringArrayVar(&o.remove, "remove", []string{"e1000e"}, "a module that the machine's kernel lacks (repeat)")
	f.BoolVar(&o.archive, "archive", false, "no network: the image is an OCI archive at /media/stick")
	f.BoolVar(&o.bare, "bare", false, "no image and no network")
	f.StringVar(&o.fitout, "fitout", "", "the program to put there (default: build it from this tree)")
	f.StringVar(&o.exec, "exec", "", "type this command at the machine's first prompt")
	f.StringVar(&o.command, "command", "", "run this command without a terminal, print what it writes, end with its exit code")
	f.StringVar(&o.cmdline, "cmdline", "", "more for the kernel's command line")
	f.IntVar(&o.memory, "memory", 1024, "MiB of memory")
	return cmd
}

func (o options) run() error {
	if o.command == "" && !isTerminal() {
		return errors.New("standard input is no terminal: use --command CMD, or run this on a terminal")
	}
	work, err := os.MkdirTemp("", "machine-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	cfg, err := o.config(work)
	if err != nil {
		return err
	}
	if !o.bare {
		stop, err := o.offer(&cfg, work)
		if err != nil {
			return err
		}
		defer stop()
	}
	say("booting %s (about 20 s) ...", cfg.Kernel.Release)
	m, err := vm.New(cfg)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := m.Boot(cfg.Kernel); err != nil {
		return err
	}
	if o.command != "" {
		out, code := m.RunFor(time.Hour, o.command)
		fmt.Print(out)
		if code != 0 {
			return exitCode(code)
		}
		return nil
	}
	return attach(m, o.exec)
}

// config is the machine without its driver image.
func (o options) config(work string) (vm.Config, error) {
	say("fetching Debian's kernel (kept in the cache) ...")
	kernel, err := o.resolve()
	if err != nil {
		return vm.Config{}, err
	}
	if o.fitout == "" {
		say("building fitout ...")
		o.fitout = filepath.Join(work, "fitout")
		if err := program.Build(o.fitout, "fitout/cmd/fitout"); err != nil {
			return vm.Config{}, err
		}
	}
	return vm.Config{
		Kernel: kernel, RemoveModules: o.remove, Devices: o.devices, Cmdline: o.cmdline, Memory: o.memory,
		Tools: map[string]string{"fitout": o.fitout}, Files: map[string]string{},
	}, nil
}

func (o options) resolve() (debian.Kernel, error) {
	metas := map[string]debian.Meta{"stock": debian.Stock, "cloud": debian.Cloud, "rt": debian.RT, "plus": debian.Plus}
	if meta, ok := metas[o.kernel]; ok {
		return debian.Newest(meta)
	}
	return debian.Fetch(o.kernel)
}

// offer builds the image of the removed modules, and gives the machine the way
// to it and a catalog that names it.
func (o options) offer(cfg *vm.Config, work string) (stop func(), err error) {
	say("building the driver image ...")
	img, err := images.Build(images.Spec{Kernels: []debian.Kernel{cfg.Kernel}, Modules: o.remove})
	if err != nil {
		return nil, err
	}
	name := "demo-" + strings.ReplaceAll(o.remove[0], "_", "-")
	entry := images.Entry{Name: name, Title: "Driver " + o.remove[0] + ", from an image", Modules: o.remove, Licence: name}
	for _, module := range o.remove {
		patterns, err := cfg.Kernel.Aliases(module)
		if err != nil {
			return nil, err
		}
		entry.Match = append(entry.Match, patterns...)
	}
	if o.archive {
		stick := filepath.Join(work, "stick")
		if err := os.Mkdir(stick, 0o755); err != nil {
			return nil, err
		}
		entry.Reference = "oci-archive:/media/stick/driver.tar:demo"
		cfg.Media = map[string]string{"stick": stick}
		cfg.Files["/etc/fitout/catalog.d/demo.yaml"] = images.Catalog(entry)
		return func() {}, images.WriteOCIArchive(img, filepath.Join(stick, "driver.tar"), "demo")
	}
	registry, err := images.Serve()
	if err != nil {
		return nil, err
	}
	if err := registry.Push(img, "drivers/"+name+":demo"); err != nil {
		registry.Close()
		return nil, err
	}
	entry.Reference = images.GuestHost + "/drivers/" + name + ":demo"
	cfg.Registry = registry.Addr
	cfg.Files = registry.Files()
	cfg.Files["/etc/fitout/catalog.d/demo.yaml"] = images.Catalog(entry)
	return registry.Close, nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "machine: "+format+"\n", args...) }
