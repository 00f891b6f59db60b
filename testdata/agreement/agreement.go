// Package agreement compares fitout's verdicts with the kernel's own answers:
// a table of modules and kernels is judged from files, as fitout judges an
// image, and then each module is handed to a real kernel with a bare
// finit_module. The test is in this directory, what runs on the machine is in
// probe.
package agreement

// Cell is one question: would this image's modules load on that kernel?
type Cell struct {
	Name string
	// Image is the tag in the OCI layout, and the directory with its files.
	Image string
	// Kernel is the release that is asked about.
	Kernel string
	// Modules are wanted, the first needs the others.
	Modules    []string
	Parameters map[string][]string
	// As says who asks, one of the words below.
	As string
	// Enforce loads the SELinux policy of the media, before the cell is judged,
	// and enforces it for the rest of the boot.
	Enforce bool
	// Disable switches module loading off for the rest of the boot
	// (kernel.modules_disabled) before the cell is judged.
	Disable bool
	// Modprobe asks the host's modprobe for its own modules of these names first.
	Modprobe bool
}

// Who asks: root; root without CAP_SYS_MODULE; root in a SELinux domain that may
// load no module.
const (
	Root         = ""
	NoCapability = "no-capability"
	Confined     = "confined"
)

// Answer is what fitout said of a cell, and what the kernel said.
type Answer struct {
	Cell, Kernel string
	// Running says that the kernel asked about is the one that runs; else there
	// is a verdict only.
	Running  bool
	Verdict  string
	Findings []Finding
	Risks    []string
	// ImageError is why the image could not be read.
	ImageError string
	// Loads are the calls that were made, in order; the last one decides.
	Loads []Load
	// Micros is how long the judgement took.
	Micros int64
}

// Finding is a finding of the verdict.
type Finding struct{ Code, Severity, Message string }

// Load is one finit_module.
type Load struct {
	Module, Path string
	// Errno is the kernel's answer, "" when it loaded the module. Code and Log
	// are what fitout makes of it (kmod.Explain).
	Errno, Code string
	Log         []string
	// Taint are the letters in /sys/module/NAME/taint.
	Taint string
	// Labelled says that SELinux was enforcing: then Unlabelled is the answer to
	// the file with the label it has got from its directory, and the others are
	// to the file that fitout labelled. UnlabelledCode is what fitout makes of it.
	Labelled                   bool
	Unlabelled, UnlabelledCode string
	// ByModprobe is what modprobe made of the host's module of that name, called
	// as for a device (-b) and as by a person, where it was asked.
	ByModprobe ByModprobe
	// Raw is the answer to the packed file itself, handed over as it is; Kernel
	// the answer when the kernel was asked to unpack it
	// (MODULE_INIT_COMPRESSED_FILE). Both are "" for a plain file, and "ok"
	// when the kernel took it.
	Raw, Kernel string
}

// ByModprobe says whether the module was loaded.
type ByModprobe struct{ Asked, ForDevice, ByName bool }
