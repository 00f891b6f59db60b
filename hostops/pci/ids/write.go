package ids

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
)

type piece struct {
	key  uint32
	text []byte
}

// Write packs a pci.ids text. It fails on a text whose vendors or devices are
// not in order, as a pack finds them by bisection.
func Write(w io.Writer, text []byte) error {
	date := Date(text)
	if date == "" || len(date) > dateSize {
		return errors.New("the text has no date in its head")
	}
	pieces, err := cutPieces(text)
	if err != nil {
		return err
	}
	var records, data bytes.Buffer
	for _, p := range pieces {
		offset := data.Len()
		z, err := flate.NewWriter(&data, flate.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(p.text); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		for _, v := range []int{int(p.key), offset, data.Len() - offset, len(p.text)} {
			_ = binary.Write(&records, binary.BigEndian, uint32(v)) // a buffer takes everything
		}
	}
	head := fmt.Sprintf("%s%-*s", magic, dateSize, date)
	head += string(binary.BigEndian.AppendUint32(nil, uint32(len(pieces))))
	for _, part := range [][]byte{[]byte(head), records.Bytes(), data.Bytes()} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// cutPieces cuts the text in front of vendor and device lines, leaving comments
// out, and keeps the class section in one piece.
func cutPieces(text []byte) ([]piece, error) {
	section := lineIndex(text, "C ")
	if section < 0 {
		return nil, errors.New("the text has no class section")
	}
	var pieces []piece
	var now piece
	var vendorLine, vendor string
	last := int64(-1)
	for line := range bytes.Lines(text[:section]) {
		if line[0] == '#' || line[0] == '\n' {
			continue
		}
		if line[0] == '\t' && line[1] == '\t' {
			now.text = append(now.text, line...)
			continue
		}
		k := Key{Vendor: vendor}
		isVendor := line[0] != '\t'
		if isVendor {
			k.Vendor, vendorLine = string(line[:4]), string(line)
			vendor = k.Vendor
		} else {
			k.Device = string(line[1:5])
		}
		number, err := k.number()
		if err != nil {
			return nil, err
		}
		if !isVendor && last == int64(number) && k.Device != "0000" || int64(number) < last {
			return nil, fmt.Errorf("the text is not in order at %s:%s", k.Vendor, k.Device)
		}
		last = int64(number)
		if now.text == nil || len(now.text) >= chunkTarget && !bytes.HasSuffix(now.text, []byte(vendorLine)) {
			if now.text != nil {
				pieces = append(pieces, now)
			}
			now = piece{key: number}
			if !isVendor {
				now.text = []byte(vendorLine)
			}
		}
		now.text = append(now.text, line...)
	}
	if now.text == nil {
		return nil, errors.New("the text has no vendors")
	}
	return append(pieces, now, piece{key: ^uint32(0), text: text[section:]}), nil
}
