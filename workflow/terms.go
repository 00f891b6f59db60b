package workflow

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"fitout/catalog"
	"fitout/catalog/image"
	"fitout/workflow/answers"
	"fitout/workflow/run"
)

// terms makes the function that says why a text stops a run: neither the
// answers nor a person on this node before have accepted it.
func (e *Engine) terms(s *Survey, a *answers.Answers) func(Licence) error {
	recorded, known := run.AcceptedLicences(e.Node, s.Host.StateDir), e.knownLicences(s, a)
	return func(l Licence) error {
		if recorded[l.Digest] || slices.ContainsFunc(a.Licences, func(x answers.Licence) bool { return x.Accepted && x.Digest == l.Digest }) {
			return nil
		}
		what := "is not accepted"
		if known[l.ID] {
			what = "has another text than the one that was accepted"
		}
		return stopf(ExitPerson, "licence-not-accepted",
			fmt.Sprintf("read it in the wizard, or add to the answers: licences: [{id: %s, digest: %q, accepted: true, by: YOU}]", l.ID, l.Digest),
			"the licence %s (%s) %s", l.ID, l.Digest, what)
	}
}

// knownLicences are the names under which the answers, or this node, have
// accepted some text.
func (e *Engine) knownLicences(s *Survey, a *answers.Answers) map[string]bool {
	out := map[string]bool{}
	for _, l := range run.Licences(e.Node, s.Host.StateDir) {
		out[l.ID] = out[l.ID] || l.Accepted
	}
	for _, l := range a.Licences {
		out[l.ID] = out[l.ID] || l.Accepted
	}
	return out
}

// termsOf asks for the terms of an image before its driver is fetched, where
// they can be had without it: the layers say what they hold, or the entry names
// a licence of which nobody has accepted any text, so that the image is not
// going to be used. Another image is asked when it is in the store, and leaves
// it when the answer is no.
func (e *Engine) termsOf(ctx context.Context, q question, img *image.Image, dir string) error {
	d := q.offer.Driver
	if q.terms == nil || d.Licence == nil && d.Source != givenByHand {
		return nil
	}
	if have, err := image.ReadInventory(dir); err == nil && have.Digest == img.Digest() {
		return q.accepts(have)
	}
	if !img.LicencesApart() && (d.Licence == nil || q.known[d.Licence.ID]) {
		return nil
	}
	tmp, err := os.MkdirTemp("", "fitout-terms-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	inv, err := img.Fetch(ctx, path.Join(tmp, "image"), image.Want{Licences: true, LicenceFile: licenceFile(d), OnlyLicences: true})
	if err != nil {
		return ImageError(img.Reference().String(), err)
	}
	return q.accepts(inv)
}

// accepts asks for every text of an image that its driver is under.
func (q question) accepts(inv *image.Inventory) error {
	for _, l := range licenceTexts(q.offer.Driver, inv) {
		if err := q.terms(l); err != nil {
			return err
		}
	}
	return nil
}

// licenceTexts are the texts to accept: the catalog's own, else the image's file
// that the catalog names, else every licence text of an image that was given by
// hand, since nobody has looked at it before.
func licenceTexts(d catalog.Driver, inv *image.Inventory) []Licence {
	want := d.Licence
	switch {
	case want == nil && d.Source != givenByHand:
		return nil
	case want == nil:
		want = &catalog.Licence{ID: d.Name}
	case want.Text != "":
		return []Licence{{ID: want.ID, Digest: digestOf(want.Text), Text: want.Text}}
	}
	var out []Licence
	for _, l := range inv.Licences {
		if want.File == "" || strings.TrimPrefix(want.File, "/") == strings.TrimPrefix(l.Path, "/") {
			out = append(out, Licence{ID: want.ID, Digest: l.Digest, Text: l.Text})
		}
	}
	if len(out) == 0 && want.File != "" {
		text := fmt.Sprintf("The catalog says that %s is under the licence %s, whose text is the file %s of the image. "+
			"The image has no such file, or none that can be read as a text. Ask the vendor for it.", d.Name, want.ID, want.File)
		out = append(out, Licence{ID: want.ID, Digest: digestOf(text), Text: text})
	}
	return out
}

// digestOf is the digest of a text, as licences are recorded by.
func digestOf(text string) string {
	return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text)))
}
