package host

import "fitout/hostops"

// Kinds makes an empty action of each kind in this package, by its name, for
// reading a plan or a journal back.
func Kinds() map[string]func() hostops.Action {
	out := map[string]func() hostops.Action{}
	for _, make := range []func() hostops.Action{
		func() hostops.Action { return &InstallBinary{} },
		func() hostops.Action { return &PutTree{} },
		func() hostops.Action { return &PutFirmware{} },
		func() hostops.Action { return &WriteFiles{} },
		func() hostops.Action { return &PutHook{} },
		func() hostops.Action { return &Keep{} },
		func() hostops.Action { return &TakeOut{} },
		func() hostops.Action { return &Purge{} },
	} {
		out[make().Kind()] = make
	}
	return out
}

// GateState says whether the gate is armed (its files are there and something
// is persisted), and which kernels it has refused.
func GateState(n *hostops.Node, f Facts) (armed bool, blocked []Blocked) {
	kept, err := readKept(n, f.StateDir)
	if err != nil {
		return false, ReadBlocked(n, f.StateDir)
	}
	for _, k := range kept {
		if k.When != "persist" || f.Gate == NoGate {
			continue
		}
		armed = true
		for _, t := range k.Texts {
			if !t.own().there(n) {
				return false, ReadBlocked(n, f.StateDir)
			}
		}
	}
	return armed, ReadBlocked(n, f.StateDir)
}
