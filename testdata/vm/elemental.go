package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"fitout/testdata/program"
	"fitout/testdata/vm/debian"
)

// imageSpace is what an image has free beside its files, as the toolkit makes
// it.
const imageSpace = 256 << 20

// elementalState is the state file of a toolkit v2 with one image.
const elementalState = `date: "2026-11-01T00:00:00Z"
snapshotter:
  type: loopdevice
  max-snaps: 2
  config: {}
state:
  label: COS_STATE
  snapshots:
    "1":
      source: dir:///
      active: true
      fromAction: install
`

// ElementalImage writes an OS image of Elemental to file: this package's root
// with one kernel and what a machine needs of its modules, less those removed,
// and with toolkit as the command elemental.
func ElementalImage(file string, k debian.Kernel, toolkit string, remove ...string) error {
	parent, err := debian.CacheDir("vm") // kernels are hard-linked from the cache
	if err != nil {
		return err
	}
	stage, err := os.MkdirTemp(parent, ".stage-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	only, err := closure([]debian.Kernel{k}, append(slices.Clone(readOnlyModules), "virtio_net", "ptp", "pps_core"))
	if err != nil {
		return err
	}
	if err := (rootSpec{Kernels: []debian.Kernel{k}, Remove: remove, Only: only}).stage(stage); err != nil {
		return fmt.Errorf("putting Elemental's image together: %w", err)
	}
	if err := stageToolkit(stage, toolkit); err != nil {
		return fmt.Errorf("putting Elemental's image together: %w", err)
	}
	size, err := treeSize(stage)
	if err != nil {
		return err
	}
	return Ext4(stage, file, fmt.Sprint((size+imageSpace)>>10)+"k", "-L", "COS_ACTIVE")
}

// stageToolkit puts the toolkit, its tools and its stages into a root.
func stageToolkit(dir, toolkit string) error {
	if err := copyFile(toolkit, filepath.Join(dir, "usr/bin/elemental"), 0o755); err != nil {
		return err
	}
	for _, prog := range []string{"debugfs", "mke2fs"} {
		// busybox has a mke2fs of its own, which makes no images of directories.
		if err := os.RemoveAll(filepath.Join(dir, "usr/sbin", prog)); err != nil {
			return err
		}
		if err := stageProgram(dir, "/usr/sbin/"+prog, "usr/sbin/"+prog); err != nil {
			return err
		}
	}
	for _, d := range []string{"oem", "var/roothome", "var/lib", "var/log", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{
		"usr/lib/machine/stage": "#!/bin/sh\nexec elemental run-stage \"$1\"\n",
		"usr/lib/os-release":    "ID=sl-micro\nPRETTY_NAME=\"Throw-away Elemental machine\"\nVERSION_ID=6.1\nIMAGE_TAG=1\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func treeSize(dir string) (bytes int64, err error) {
	err = filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return err
	})
	return bytes, err
}

// makeElemental makes the persistent disk of an Elemental node: state, /oem and
// the persistent partition, each a directory of it.
func (c Config) makeElemental(dir, stage string) error {
	first := filepath.Join(stage, "elemental-state/.snapshots/1")
	for _, d := range []string{first, filepath.Join(stage, "persistent"), filepath.Join(stage, "oem")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := program.Run("cp", "--sparse=always", "--", c.Elemental, filepath.Join(first, "snapshot.img")); err != nil {
		return err
	}
	if err := os.Symlink("1/snapshot.img", filepath.Join(stage, "elemental-state/.snapshots/active")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(stage, "elemental-state/state.yaml"), []byte(elementalState), 0o644); err != nil {
		return err
	}
	return Ext4(stage, filepath.Join(dir, "persist.ext4"), "4G")
}
