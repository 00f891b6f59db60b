package rpmrepo

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
)

// entry is what the metadata says of a package.
type entry struct {
	pkg                    Package // without its files
	ver, rel               string
	sum                    string // SHA-256 of the package
	size, installed        int    // bytes
	headerStart, headerEnd int
	files                  []string
}

func (e entry) file() string {
	return fmt.Sprintf("%s-%s-%s.%s.rpm", e.pkg.Name, e.ver, e.rel, e.pkg.Arch)
}

// headerRange is where a package's main header lies (rpm's file format: a lead
// of 96 bytes, the signature padded to 8, the header; either of the two has a
// preamble of 16 bytes that counts its entries, of 16 bytes each, and its data).
func headerRange(b []byte) (start, end int) {
	section := func(at int) int {
		if len(b) < at+16 {
			return 0
		}
		return 16 + 16*int(binary.BigEndian.Uint32(b[at+8:])) + int(binary.BigEndian.Uint32(b[at+12:]))
	}
	const lead = 96
	signature := section(lead)
	start = lead + (signature+7)/8*8
	return start, start + section(start)
}

// escaped is a text as XML has it. What comes out of a module may be in any
// encoding; bytes that XML does not allow are replaced.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a builder takes everything
	return b.String()
}

const xmlHead = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

// primary is what a solver reads: names, versions, what is provided and needed.
func (e entry) primary() string {
	t := escaped
	need, needRel := e.pkg.Kernel, ""
	if i := strings.LastIndex(need, "-"); i > 0 {
		need, needRel = need[:i], fmt.Sprintf(` rel="%s"`, t(e.pkg.Kernel[i+1:]))
	}
	return fmt.Sprintf(`<package type="rpm">
 <name>%[1]s</name><arch>%[2]s</arch><version epoch="0" ver="%[3]s" rel="%[4]s"/>
 <checksum type="sha256" pkgid="YES">%[5]s</checksum>
 <summary>%[6]s</summary><description>%[6]s</description><packager></packager><url></url>
 <time file="%[7]d" build="%[7]d"/><size package="%[8]d" installed="%[9]d" archive="%[9]d"/>
 <location href="%[10]s"/>
 <format>
  <rpm:license>%[11]s</rpm:license><rpm:vendor>fitout</rpm:vendor><rpm:group></rpm:group><rpm:buildhost>localhost</rpm:buildhost>
  <rpm:sourcerpm>%[1]s-%[3]s-%[4]s.src.rpm</rpm:sourcerpm><rpm:header-range start="%[12]d" end="%[13]d"/>
  <rpm:provides><rpm:entry name="%[1]s" flags="EQ" epoch="0" ver="%[3]s" rel="%[4]s"/></rpm:provides>
  <rpm:requires><rpm:entry name="%[14]s" flags="EQ" epoch="0" ver="%[15]s"%[16]s/></rpm:requires>
 </format>
</package>
`, t(e.pkg.Name), t(e.pkg.Arch), t(e.ver), t(e.rel), e.sum, t(e.pkg.Summary), fixed.Unix(), e.size, e.installed, t(e.file()), t(e.pkg.Licence), e.headerStart, e.headerEnd, capability, t(need), needRel)
}

// filelists are the paths that a package has.
func (e entry) filelists() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<package pkgid="%s" name="%s" arch="%s"><version epoch="0" ver="%s" rel="%s"/>`+"\n",
		e.sum, escaped(e.pkg.Name), escaped(e.pkg.Arch), escaped(e.ver), escaped(e.rel))
	for _, f := range e.files {
		b.WriteString(" <file>" + escaped(f) + "</file>\n")
	}
	b.WriteString("</package>\n")
	return b.String()
}

// Close writes the metadata (repodata/), the list of it last.
func (w *Writer) Close() error {
	slices.SortFunc(w.entries, func(a, b entry) int { return strings.Compare(a.file(), b.file()) })
	primary, filelists := "", ""
	for _, e := range w.entries {
		primary += e.primary()
		filelists += e.filelists()
	}
	const common = "http://linux.duke.edu/metadata/"
	list := xmlHead + `<repomd xmlns="` + common + `repo"><revision>` + fmt.Sprint(fixed.Unix()) + "</revision>\n"
	for _, part := range []struct{ name, text string }{
		{"primary", fmt.Sprintf(`<metadata xmlns="%scommon" xmlns:rpm="%srpm" packages="%d">`+"\n%s</metadata>\n", common, common, len(w.entries), primary)},
		{"filelists", fmt.Sprintf(`<filelists xmlns="%sfilelists" packages="%d">`+"\n%s</filelists>\n", common, len(w.entries), filelists)},
	} {
		open := []byte(xmlHead + part.text)
		packed, err := gzipped(open)
		if err != nil {
			return fmt.Errorf("writing the repository's metadata: %w", err)
		}
		// Named by content, so that no reader has an old one under a new list.
		name := "repodata/" + hexSum(packed) + "-" + part.name + ".xml.gz"
		if err := w.put(name, packed); err != nil {
			return err
		}
		list += fmt.Sprintf(`<data type="%s"><checksum type="sha256">%s</checksum><open-checksum type="sha256">%s</open-checksum><location href="%s"/><timestamp>%d</timestamp><size>%d</size><open-size>%d</open-size></data>`+"\n",
			part.name, hexSum(packed), hexSum(open), name, fixed.Unix(), len(packed), len(open))
	}
	return w.put("repodata/repomd.xml", []byte(list+"</repomd>\n"))
}

func gzipped(b []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
