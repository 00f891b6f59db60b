package pages

import (
	"errors"
	"slices"

	"fitout/tui/choice"
	"fitout/workflow"
)

// Decline takes back the choice that a licence belongs to, and every image
// under that text out of the store: nothing that contains the driver stays on
// the node. What it says about the images stays known.
func Decline(w workflow.Wizard, c *choice.Choices, q choice.Question) error {
	c.Kinds[q.Kind].Pick = choice.NotChosen
	f, ok := w.(Forgetter)
	if !ok {
		return nil
	}
	under := func(l workflow.Licence) bool { return l.Digest == q.Licence.Digest && !l.Accepted }
	var failed []error
	for _, k := range c.Kinds {
		for _, o := range k.Offers {
			if o.Examined != nil && slices.ContainsFunc(o.Examined.Licences, under) {
				failed = append(failed, f.Forget(o.Examined))
			}
		}
	}
	return errors.Join(failed...)
}
