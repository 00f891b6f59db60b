package finding

// VerdictEntry is a verdict in words.
type VerdictEntry struct {
	Verdict Verdict
	// Word as it is shown in tables and on screens.
	Word, Sentence string
}

// Verdicts is the table, best first.
var Verdicts = []VerdictEntry{
	{OK, "OK", "The kernel would load these modules: they were built for this release."},
	{OKKABI, "OK KABI", "Built for another release, and every symbol version matches this kernel: it would load them. Needs the risk kabi-match, accepted once."},
	{Unsure, "UNSURE", "Not everything could be checked; the findings name what would settle it. Needs the risk unsure-verdict."},
	{NoModule, "NO MODULE", "The image holds nothing for this kernel."},
	{Blocked, "BLOCKED", "The kernel, or a rule of this program, would refuse it; the findings say why."},
}

// StateEntry is a device state in words.
type StateEntry struct {
	State          State
	Word, Sentence string
}

// States is the table of device states.
var States = []StateEntry{
	{StateOK, "ok", "Bound to a driver that lists this device."},
	{StateNeedsDriver, "needs driver", "No driver is bound, and the kernel's own modules or the catalog have one."},
	{StateWrongDriver, "wrong driver", "Bound to a driver that a fitting catalog entry replaces."},
	{StateUpdate, "update", "Bound to the catalog's driver in another version."},
	{StateNoImage, "no image", "No driver is bound, and neither this kernel nor the catalog has one that lists the device."},
	{StateFailed, "failed", "A driver is bound, and the kernel log says that the device does not work."},
	{StatePassedThrough, "passed through", "Given to virtual machines on purpose (vfio); left alone unless asked for by name."},
	{StateVirtualFunction, "virtual function", "A part of another device; the driver belongs to that one."},
	{StateNotNeeded, "not needed", "Works without a driver of its own."},
}

// VerdictWord is how a verdict is shown ("OK KABI").
func VerdictWord(v Verdict) string {
	for _, e := range Verdicts {
		if e.Verdict == v {
			return e.Word
		}
	}
	return string(v)
}

// VerdictSentence says what a verdict means, "" for an unknown one.
func VerdictSentence(v Verdict) string {
	for _, e := range Verdicts {
		if e.Verdict == v {
			return e.Sentence
		}
	}
	return ""
}

// StateWord is how a device state is shown ("needs driver").
func StateWord(s State) string {
	for _, e := range States {
		if e.State == s {
			return e.Word
		}
	}
	return string(s)
}

// StateSentence says what a state means, "" for an unknown one.
func StateSentence(s State) string {
	for _, e := range States {
		if e.State == s {
			return e.Sentence
		}
	}
	return ""
}

// Better orders verdicts: true when a is nearer to loading than b.
func Better(a, b Verdict) bool { return verdictRank(a) < verdictRank(b) }

func verdictRank(v Verdict) int {
	for n, e := range Verdicts {
		if e.Verdict == v {
			return n
		}
	}
	return len(Verdicts)
}

// RiskEntry is a risk that can be accepted, by --accept-risk NAME or in the
// answers' acceptRisks. There is no name for all of them.
type RiskEntry struct {
	Name string `json:"name"`
	// Accepting says what is accepted with it.
	Accepting string `json:"accepting"`
}

// Risks is the table, sorted by name.
var Risks = []RiskEntry{
	{"in-use", "The device or the old driver is in use by something that will lose it while the driver is changed."},
	{"kabi-match", "The modules were built for another kernel release; their symbol versions match, so the kernel takes them, and so will the upgrade gate."},
	{"no-way-back", "A step of the plan cannot be undone by this program."},
	{"not-in-maintenance", "The node may be carrying work while the driver is changed."},
	{"passed-through", "The device is taken from the virtual machines it was given to."},
	{"plain-http", "The image comes over a connection that anybody in between can change; its digest is recorded all the same."},
	{"session-network", "The network device under your very session loses its driver for a moment; the run goes on without the session."},
	{"unsigned-module", "The kernel loads a module whose signature it cannot check, and marks itself as tainted."},
	{"unsupported-module", "The distribution does not support this module, and may ask to remove it first; modprobe is told to load such ones while the driver is kept."},
	{"unsure-verdict", "Not everything could be checked from files; the kernel may refuse the module when it is loaded."},
	{"unverified-entry", "The catalog's authors could not try this entry against the registry it names."},
	{"unversioned-module", "The kernel loads a module without comparing a single symbol, as if it were forced: one built against other sources can crash the node or corrupt its memory, and the taint F stays until the next boot."},
}

// RiskMeaning says what accepting a risk means; false when there is none of
// that name.
func RiskMeaning(name string) (string, bool) {
	for _, r := range Risks {
		if r.Name == name {
			return r.Accepting, true
		}
	}
	return "", false
}
