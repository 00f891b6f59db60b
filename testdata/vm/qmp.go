package vm

import (
	"encoding/json"
	"fmt"
	"net"
)

// qmp speaks the QEMU Machine Protocol (docs/interop/qmp-spec.txt).
type qmp struct {
	enc *json.Encoder
	dec *json.Decoder
}

func newQMP(conn net.Conn) (*qmp, error) {
	q := &qmp{enc: json.NewEncoder(conn), dec: json.NewDecoder(conn)}
	var greeting map[string]any
	if err := q.dec.Decode(&greeting); err != nil {
		return nil, fmt.Errorf("reading QEMU's greeting: %w", err)
	}
	return q, q.execute("qmp_capabilities")
}

// execute runs a command without arguments and waits for its answer; events in
// between are dropped.
func (q *qmp) execute(command string) error {
	if err := q.enc.Encode(map[string]any{"execute": command}); err != nil {
		return fmt.Errorf("asking QEMU for %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
			Event  string
		}
		if err := q.dec.Decode(&answer); err != nil {
			return fmt.Errorf("asking QEMU for %s: %w", command, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return fmt.Errorf("QEMU refused %s: %s", command, answer.Error.Desc)
		default:
			return nil
		}
	}
}
