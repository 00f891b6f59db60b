package main

import (
	"errors"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"fitout/catalog/image"
	"fitout/workflow"
	"fitout/workflow/plan"
)

// packWords are the words of the command line that stand for references and
// directories.
type packWords struct {
	kernels, from  []string
	appendTo, base string
}

// into reads the words.
func (w packWords) into(o *image.PackOptions, to string) (err error) {
	if o.Output, err = image.ParseReference(to); err != nil {
		return err
	}
	for _, k := range w.kernels {
		release, dir, named := strings.Cut(k, "=")
		if !named {
			release, dir = path.Base(path.Clean(k)), k
		}
		o.Kernels = append(o.Kernels, image.PackKernel{Release: release, Dir: dir})
	}
	for _, f := range w.from {
		ref, err := image.ParseReference(f)
		if err != nil {
			return err
		}
		o.Images = append(o.Images, ref)
	}
	for into, word := range map[**image.Reference]string{&o.Append: w.appendTo, &o.Base: w.base} {
		if word == "" {
			continue
		}
		ref, err := image.ParseReference(word)
		if err != nil {
			return err
		}
		*into = &ref
	}
	return nil
}

func (a *app) imagePack() *cobra.Command {
	var o image.PackOptions
	var words packWords
	c := &cobra.Command{
		Use:   "pack REFERENCE",
		Short: "Build a driver image with one layer a kernel",
		Example: `  fitout image pack oci-archive:e1000e.tar --kernel ./out/6.1.0-57-amd64 --licence LICENSE
  fitout image pack registry.local:5000/drivers/e1000e:3.8.7 --kernel 6.1.0-57-amd64=./build57 --firmware ./firmware`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := words.into(&o, args[0]); err != nil {
				return workflow.ReferenceError(err)
			}
			if len(words.kernels)+len(words.from)+len(o.Licences) == 0 && words.appendTo == "" && o.Firmware == "" {
				return usageError{errors.New("nothing to pack: no kernel, firmware or licence was given (see: fitout image pack --help)")}
			}
			var err error
			if o.Reach, err = a.imageOptions(); err != nil {
				return err
			}
			packed, err := image.Pack(cmd.Context(), o)
			if err != nil {
				return workflow.ImageFailed("packing "+args[0], err)
			}
			if a.json {
				return a.printJSON("Packed", packed)
			}
			for _, l := range packed.Lint {
				say(a.errOut, "note %s: %s %s %s\n", l.Code, l.Release, l.Path, l.Message)
			}
			a.printf("%s\n", packed.Digest)
			return nil
		},
	}
	f := c.Flags()
	f.StringArrayVar(&words.kernels, "kernel", nil, "modules of one kernel: RELEASE=DIR, or a DIR named like the release (may be repeated)")
	f.StringArrayVar(&words.from, "from", nil, "take kernels, firmware and licences from this image (may be repeated)")
	f.StringSliceVar(&o.Releases, "only", nil, "of the images named by --from, only these kernel releases")
	f.StringVar(&words.appendTo, "append", "", "add to this image, whose other layers stay as they are")
	f.StringVar(&words.base, "base", "", "build on this image (KMM needs the sh and cp of one)")
	f.StringVar(&o.Firmware, "firmware", "", "directory of firmware files")
	f.StringArrayVar(&o.Licences, "licence", nil, "licence text (may be repeated)")
	f.StringToStringVar(&o.Labels, "label", nil, "label of the image, KEY=VALUE (may be repeated)")
	f.StringVar(&o.DirName, "dir", "", "where lib/modules goes in the image (default /opt)")
	f.BoolVar(&o.HostLink, "host-link", false, "link to the host's own modules from each kernel's, as KMM expects it")
	f.BoolVar(&o.Strict, "strict", false, "fail on everything the check of the modules finds")
	return c
}

// imageOptions say how images are read and written here, without the catalog.
func (a *app) imageOptions() (image.Options, error) {
	e := workflow.Engine{Node: a.node(), PlainHTTP: a.plainHTTP}
	return e.ImageOptions()
}

func (a *app) imageCopy() *cobra.Command {
	var kernels []string
	c := &cobra.Command{
		Use:     "copy REFERENCE ARCHIVE",
		Short:   "Fetch an image to an archive, for nodes without a network",
		Example: `  fitout image copy registry.local:5000/drivers/e1000e:3.8.7 oci-archive:/media/stick/e1000e.tar:3.8.7`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := image.ParseReference(args[0])
			if err != nil {
				return workflow.ReferenceError(err)
			}
			to, err := image.ParseReference(args[1])
			if err != nil {
				return workflow.ReferenceError(err)
			}
			opts, err := a.imageOptions()
			if err != nil {
				return err
			}
			opts.Progress = a.fetchProgress()
			copied, err := image.Copy(cmd.Context(), ref, to, kernels, opts)
			if err != nil {
				return workflow.ImageFailed("copying "+args[0], err)
			}
			if a.json {
				return a.printJSON("Copied", copied)
			}
			a.printf("%s  %s\n", copied.Digest, plan.Size(copied.Bytes))
			return nil
		},
	}
	c.Flags().StringSliceVar(&kernels, "kernels", nil, "only these kernel releases of a packed image")
	return c
}
