package e2e_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm"
	"fitout/testdata/vm/debian"
)

// slow hands connections on to addr, so many bytes a second on the way back.
func slow(t *testing.T, addr string, perSecond int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", addr)
			if err != nil {
				in.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(out, in)
				out.Close()
			}()
			go func() {
				defer in.Close()
				for err == nil {
					_, err = io.CopyN(in, out, int64(perSecond/10))
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// hangUp takes the second console away from whoever is on it, as a lost
// connection does.
func (s second) hangUp() {
	s.t.Helper()
	s.ok("kill -9 $(pidof console)")
}

// lastRun is the id of the newest run.
func (n node) lastRun() string {
	n.t.Helper()
	return n.ok("cat /var/lib/fitout/runs/last")
}

// The line is lost in the middle of a slow pull, and in the middle of a load.
func TestLineLostInAPullAndInALoad(t *testing.T) {
	t.Parallel()
	stock := kernel(t, debian.Stock)
	registry, err := images.Serve()
	require.NoError(t, err)
	t.Cleanup(registry.Close)
	build(t, images.Spec{Kernels: []debian.Kernel{stock}, Modules: []string{"e1000e"}}).push(registry, "drivers/e1000e:1")
	files := registry.Files()
	files["/etc/fitout/catalog.d/test.yaml"] = images.Catalog(images.Entry{
		Name: "e1000e-image", Title: "Intel PRO/1000 PCIe", Modules: []string{"e1000e"}, Match: []string{"pci:v00008086d000010D3sv*sd*bc02sc00i*"},
		Reference: images.GuestHost + "/drivers/e1000e:1", Licence: "gpl",
	})
	machine := start(t, vm.Config{
		Kernel: stock, OnlyModules: []string{"e1000e", "virtio_net"}, RemoveModules: []string{"e1000e"}, Devices: []string{"e1000e,addr=05.0"},
		Registry: slow(t, registry.Addr, 50_000), Files: files, Memory: 512,
	}, "console")
	pulling := func(n node) {
		require.Eventually(n.t, func() bool {
			out, _ := n.Run("find /var/lib/fitout/store -size +64k 2>/dev/null")
			return strings.TrimSpace(out) != ""
		}, patience, 200*time.Millisecond, "nothing is being read")
	}
	ended := func(n node, outcome string) string {
		var id string
		require.Eventually(n.t, func() bool {
			out, _ := n.Run("cat /var/lib/fitout/runs/last 2>/dev/null")
			id = strings.TrimSpace(out)
			return id != "" && strings.Contains(n.exits(0, "fitout history"), outcome)
		}, runTime, time.Second, "the run did not end")
		return id
	}

	t.Run("the wizard reads an image: nothing was asked for yet, and nothing is done", func(t *testing.T) {
		n := machine.on(t)
		before := n.state()
		two := n.onSecond("fitout")
		two.screen("1/7 Hardware")
		two.keys("n")
		pulling(n)
		two.hangUp()
		require.Eventually(t, func() bool { return len(n.pids("[^ ]*fitout ")) == 0 }, patience, 300*time.Millisecond, "the wizard does not end")
		require.Equal(t, before, n.state())
		require.Empty(t, n.ok("ls /var/lib/fitout/runs 2>/dev/null || true"))
		n.ok("fitout status")
	})
	t.Run("apply reads an image: what the file asks for comes about", func(t *testing.T) {
		n := machine.on(t)
		n.write("/root/answers.yaml", answer{id: e1000eID, driver: "e1000e-image", when: "load-now", licence: "gpl"}.file())
		n.ok("rm -rf /var/lib/fitout/store")
		two := n.onSecond("fitout apply -a /root/answers.yaml")
		pulling(n)
		two.hangUp()
		whole := n.ok("fitout attach " + ended(n, "done"))
		require.Contains(t, whole, "fetch")
		require.Contains(t, whole, "0000:00:05.0 is bound to e1000e")
		require.Equal(t, "e1000e", n.driver("05.0"))
		n.ok("fitout rollback " + n.lastRun() + " --yes")
	})
	t.Run("the wizard's run loads the driver: it goes on and ends", func(t *testing.T) {
		n := machine.on(t)
		two := n.onSecond("fitout")
		two.screen("1/7 Hardware")
		two.keys("n")
		two.screen("recommended: ")
		two.keys("\\r")
		two.screen("5/7 When")
		two.keys("1\\r")
		two.screen("type  run")
		held, free := n.holdRun()
		two.keys("run\\r")
		two.screen("7/7 Running")
		held()
		two.hangUp()
		free()
		whole := n.ok("fitout attach " + ended(n, "done"))
		require.Contains(t, whole, "[1/")
		require.Contains(t, whole, "0000:00:05.0 is bound to e1000e")
		require.Equal(t, "e1000e", n.driver("05.0"))
	})
}
