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

// execute runs a command without arguments and waits for its answer.
func (q *qmp) execute(command string) error {
	_, err := q.ask(command, nil)
	return err
}

// ask runs a command and returns what it answers; events in between are dropped.
func (q *qmp) ask(command string, arguments map[string]any) (json.RawMessage, error) {
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	if err := q.enc.Encode(request); err != nil {
		return nil, fmt.Errorf("asking QEMU for %s: %w", command, err)
	}
	for {
		var answer struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
			Event  string
		}
		if err := q.dec.Decode(&answer); err != nil {
			return nil, fmt.Errorf("asking QEMU for %s: %w", command, err)
		}
		switch {
		case answer.Event != "":
		case answer.Error != nil:
			return nil, fmt.Errorf("QEMU refused %s: %s", command, answer.Error.Desc)
		default:
			return answer.Return, nil
		}
	}
}
