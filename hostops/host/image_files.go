package host

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"fitout/hostops"
)

// knownSnapshots says whether the snapshots of toolkit v2 are those that its
// state file lists. A stray one, left by an upgrade that was killed, makes the
// next upgrade drop a good image in its place.
func knownSnapshots(n *hostops.Node) error {
	b, err := n.ReadFile(path.Dir(images2) + "/state.yaml")
	if err != nil {
		return fmt.Errorf("reading the toolkit's state: %w", err)
	}
	var state struct {
		State struct {
			Snapshots map[string]any `yaml:"snapshots"`
		} `yaml:"state"`
	}
	if err := yaml.Unmarshal(b, &state); err != nil {
		return fmt.Errorf("reading the toolkit's state: %w", err)
	}
	for _, dir := range n.Glob(images2 + "/[0-9]*") {
		_, listed := state.State.Snapshots[path.Base(dir)]
		if !listed || !n.Exists(dir+"/snapshot.img") {
			return fmt.Errorf("%s is a leftover of an upgrade that was cut short: with it the next one would drop the fallback image; remove it (rm -r %s) when no upgrade is running", dir, dir)
		}
	}
	return nil
}

// UpgradeLeftover names what an upgrade that was cut short has left among the
// OS images of toolkit v2, and what the next one would do with it; nil for
// nothing, and where there are no such images.
func UpgradeLeftover(n *hostops.Node) error {
	if _, err := n.Readlink(images2 + "/active"); err != nil {
		return nil
	}
	return knownSnapshots(n)
}

// imageHas says whether an image has a driver's build for a release, each
// module with the digest that was recorded. It reads the image without mounting
// it.
func imageHas(ctx context.Context, n *hostops.Node, img string, k Kept, rel string) error {
	build, ok := k.Driver.Builds[rel]
	if !ok {
		return fmt.Errorf("no build of %s is kept for kernel %s of %s", k.Driver.Name, rel, img)
	}
	for _, m := range build.Modules {
		i := slices.IndexFunc(k.Files, func(f OwnFile) bool { return f.Path == path.Join(build.Dir, m) })
		if i < 0 {
			return fmt.Errorf("the record of %s does not know %s", k.Driver.Name, m)
		}
		sum, err := imageSum(ctx, n, img, path.Join("lib/modules", rel, "updates/fitout", k.Driver.Name, m))
		if err != nil {
			return err
		}
		if sum != k.Files[i].SHA256 {
			return fmt.Errorf("%s has another %s of %s for kernel %s", img, m, k.Driver.Name, rel)
		}
	}
	return nil
}

// imageSum is the digest of a file in an ext image, "" when it is not there;
// /lib is a link to usr/lib in some images and a directory in others, and
// debugfs follows no links.
func imageSum(ctx context.Context, n *hostops.Node, img, file string) (string, error) {
	tmp, err := os.CreateTemp(n.Path("/run"), "fitout-image-")
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	for _, prefix := range []string{"/usr/", "/"} {
		said, err := n.Exec.Run(ctx, "debugfs", "-R", "dump "+prefix+file+" "+n.NodePath(tmp.Name()), img)
		if err != nil {
			return "", fmt.Errorf("reading %s: %w: %s", img, err, strings.TrimSpace(string(said)))
		}
		if st, err := os.Stat(tmp.Name()); err == nil && st.Size() > 0 {
			sum, _, err := hashFile(n, n.NodePath(tmp.Name()))
			return sum, err
		}
	}
	return "", nil
}
