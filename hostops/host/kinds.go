package host

import "fitout/hostops"

// Actions makes an empty action of each kind in this package, for reading a
// plan or a journal back.
func Actions() []func() hostops.Action {
	return []func() hostops.Action{
		func() hostops.Action { return &InstallBinary{} },
		func() hostops.Action { return &PutTree{} },
		func() hostops.Action { return &PutFirmware{} },
		func() hostops.Action { return &WriteFiles{} },
		func() hostops.Action { return &PutHook{} },
		func() hostops.Action { return &Keep{} },
		func() hostops.Action { return &TakeOut{} },
		func() hostops.Action { return &Purge{} },
		func() hostops.Action { return &RebuildImage{} },
		func() hostops.Action { return &LayerPackage{} },
		func() hostops.Action { return &UnlayerPackage{} },
	}
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
