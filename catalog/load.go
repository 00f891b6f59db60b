package catalog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"fitout/assets"
	"fitout/catalog/strict"
)

// embeddedName is how the embedded catalog is called in messages and as Source.
const embeddedName = "built-in catalog"

// Default is the embedded catalog alone.
func Default() (*Catalog, error) {
	// Its rules are checked by a test, not at every start.
	type unchecked File
	f := &unchecked{}
	if err := strict.Decode(embeddedName, assets.Catalog, f); err != nil {
		return nil, err
	}
	c := &Catalog{}
	c.add(embeddedName, (*File)(f))
	return c, nil
}

// Load merges the embedded catalog with files in that order: an entry replaces
// an earlier one of the same name. A path is a file, or a directory of which all
// *.yaml are read in the order of their names. It must be there, unless it is ""
// or a drop-in directory (its name ends in .d).
//
// Every file is read before an error is returned; the error joins a
// *strict.Errors for each file that is not valid.
func Load(paths ...string) (*Catalog, error) {
	c, err := Default()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, p := range paths {
		files, err := expand(p)
		errs = append(errs, err)
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				errs = append(errs, fmt.Errorf("reading the catalog: %w", err))
				continue
			}
			content, err := Read(f, data)
			errs = append(errs, err)
			if err == nil {
				c.add(f, content)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// expand lists the catalog files a path stands for.
func expand(p string) ([]string, error) {
	if p == "" {
		return nil, nil
	}
	info, err := os.Stat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(p, ".d"):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the catalog: %w", err)
	case !info.IsDir():
		return []string{p}, nil
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	var files []string
	for _, e := range entries {
		if isYAML(e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(p, e.Name()))
		}
	}
	return files, nil
}

func isYAML(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Read reads one catalog file. The error is *strict.Errors.
func Read(file string, data []byte) (*File, error) {
	f := &File{}
	if err := strict.Decode(file, data, f); err != nil {
		return nil, err
	}
	return f, nil
}

// add merges one file.
func (c *Catalog) add(file string, f *File) {
	for _, d := range f.Drivers {
		d.Source = file
		same := func(have Driver) bool { return have.Name == d.Name }
		if i := slices.IndexFunc(c.Drivers, same); i >= 0 {
			c.Drivers[i] = d
		} else {
			c.Drivers = append(c.Drivers, d)
		}
	}
	c.Date = max(c.Date, f.Date) // dates of that form compare as strings
	c.Sources = append(c.Sources, file)
}

// Driver returns the entry of a name.
func (c *Catalog) Driver(name string) (Driver, bool) {
	for _, d := range c.Drivers {
		if d.Name == name {
			return d, true
		}
	}
	return Driver{}, false
}
