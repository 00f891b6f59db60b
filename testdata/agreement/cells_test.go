package agreement_test

import (
	"bytes"
	"strings"

	"fitout/testdata/agreement"
	"fitout/testdata/vm/debian"
)

// files are an image's modules, by file name; a name with a slash is a path of
// the image.
type files map[string][]byte

// row is a row of the table: one image, and what becomes of it on each boot.
type row struct {
	name string
	// make makes the files for a kernel release.
	make func(m *material, release string) files
	// modules are wanted; empty: dummy.
	modules    []string
	parameters map[string][]string
	// What is expected on each boot: "ok", "ok-kabi", the code of the finding
	// that blocks, "unsure:CODE", or "as judged": the outcome depends on
	// Debian's builds, and whatever the verdict is, the kernel must agree. ""
	// is not asked.
	plain, enforced, locked, plus string
	// as says who asks, one of agreement's words; enforce and
	// disable that SELinux is enforced, or nothing loaded any more, from this row on.
	as               string
	enforce, disable bool
	// modprobe says that modprobe is asked too: it must leave the module out for a
	// device, and the verdict must say so.
	modprobe bool
	// why says, of a verdict that is not the kernel's yes or no, what the
	// kernel does and why fitout does not say so.
	why string
	// kernel is what the kernel does where why is given: "" loads it.
	kernel string
}

const asJudged = "as judged"

// dummy makes a row of the kernel's own dummy.ko, changed.
func dummy(change func(m *material, b []byte) []byte) func(*material, string) files {
	return packedDummy("dummy.ko", change)
}

// packedDummy is the same under another file name.
func packedDummy(name string, change func(m *material, b []byte) []byte) func(*material, string) files {
	return func(m *material, release string) files {
		return files{name: change(m, m.debian(m.kernel(release), "dummy"))}
	}
}

// own makes a row of modules that the test builds.
func own(names ...string) func(*material, string) files {
	return func(m *material, release string) files {
		f := files{}
		for _, n := range names {
			f[n+".ko"] = m.own(release, n)
		}
		return f
	}
}

// ownChanged is one of those modules, changed.
func ownChanged(name string, change func(m *material, b []byte) []byte, beside ...string) func(*material, string) files {
	return func(m *material, release string) files {
		f := own(beside...)(m, release)
		f[name+".ko"] = change(m, m.own(release, name))
		return f
	}
}

// identity are rows about who built it and for what.
var identity = []row{
	{name: "the kernel's own module", make: dummy(func(_ *material, b []byte) []byte { return b }),
		plain: "ok", enforced: "ok", locked: "ok", plus: "ok"},
	{name: "release in vermagic changed", make: dummy(func(m *material, b []byte) []byte {
		return replaced(m.t, stripped(b), "vermagic=6.1", "vermagic=6.9")
	}), plain: "ok-kabi", enforced: "unsigned", locked: "lockdown", plus: "ok-kabi"},
	{name: "vermagic flag changed", make: dummy(func(m *material, b []byte) []byte {
		return replaced(m.t, stripped(b), " SMP preempt ", " SMP voluntr ")
	}), plain: "vermagic-flags", enforced: "unsigned", plus: "vermagic-flags"},
	{name: "vermagic flag missing", make: dummy(func(m *material, b []byte) []byte {
		return replaced(m.t, stripped(b), " modversions ", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	}), plain: "vermagic-flags", plus: "vermagic-flags"},
	{name: "no symbol versions", make: dummy(func(m *material, b []byte) []byte {
		return replaced(m.t, stripped(b), "__versions\x00", "__versionz\x00")
	}), plain: "ok", enforced: "unsigned", locked: "lockdown", plus: "ok"}, // Debian's kernels have CONFIG_MODULE_FORCE_LOAD
	{name: "no symbol versions, release in vermagic changed", make: dummy(func(m *material, b []byte) []byte {
		return replaced(m.t, replaced(m.t, stripped(b), "__versions\x00", "__versionz\x00"), "vermagic=6.1", "vermagic=6.9")
	}), plain: "vermagic-release", plus: "vermagic-release"},
	{name: "other size of struct module", make: dummy(func(m *material, b []byte) []byte { return structSize(m.t, stripped(b)) }),
		plus: "struct-module-size"},
	{name: "other size of struct module, on a kernel that does not look", make: dummy(func(m *material, b []byte) []byte { return structSize(m.t, stripped(b)) }),
		plain: "struct-module-size", why: "Linux 6.1 does not compare the sizes yet and would write behind the module's record"},
	{name: "wrong machine", make: dummy(func(_ *material, b []byte) []byte { return otherMachine(stripped(b)) }),
		plain: "wrong-machine", plus: "wrong-machine"},
}

// symbols are rows about what is linked to what.
var symbols = []row{
	{name: "version of module_layout flipped", make: dummy(func(m *material, b []byte) []byte { return otherCRC(m.t, stripped(b), "module_layout") }),
		plain: "symbol-crc", enforced: "unsigned", locked: "lockdown", plus: "symbol-crc"},
	{name: "version of register_netdevice flipped", make: dummy(func(m *material, b []byte) []byte { return otherCRC(m.t, stripped(b), "register_netdevice") }),
		plain: "symbol-crc", plus: "symbol-crc"},
	{name: "symbol that nobody exports", make: dummy(func(m *material, b []byte) []byte {
		return replaced(m.t, stripped(b), "register_netdevice\x00", "registrr_netdevice\x00")
	}), plain: "symbol-missing", plus: "symbol-missing"},
	{name: "one module depends on another", make: own("ag_export", "ag_user"), modules: []string{"ag_user", "ag_export"},
		plain: "ok", enforced: "unsigned", locked: "lockdown", plus: "ok"},
	{name: "dependency not named, in the image", make: own("ag_export", "ag_user"), modules: []string{"ag_user"}, plain: "ok", plus: "ok"},
	{name: "dependency missing", make: own("ag_user"), modules: []string{"ag_user"}, plain: "dependency-missing", plus: "dependency-missing"},
	{name: "dependency of another version", make: ownChanged("ag_user", func(m *material, b []byte) []byte { return otherCRC(m.t, b, "ag_answer") }, "ag_export"),
		modules: []string{"ag_user", "ag_export"}, plain: "symbol-crc", plus: "symbol-crc"},
	{name: "GPL-only symbol, GPL", make: own("ag_gpl"), modules: []string{"ag_gpl"}, plain: "ok", plus: "ok"},
	{name: "GPL-only symbol, proprietary", make: ownChanged("ag_gpl", func(m *material, b []byte) []byte {
		return replaced(m.t, b, "license=GPL and additional rights\x00", "license=Proprietary\x00license2=1234\x00")
	}), modules: []string{"ag_gpl"}, plain: "symbol-gpl", plus: "symbol-gpl"},
	{name: "namespace imported", make: own("ag_export", "ag_namespace"), modules: []string{"ag_namespace", "ag_export"}, plain: "ok", plus: "ok"},
	{name: "namespace import missing", make: ownChanged("ag_namespace", func(m *material, b []byte) []byte {
		return replaced(m.t, b, "import_ns=AGREEMENT\x00", "import_no=AGREEMENT\x00")
	}, "ag_export"), modules: []string{"ag_namespace", "ag_export"}, plain: "namespace-missing", plus: "namespace-missing"},
	{name: "symbol exported twice", make: func(m *material, release string) files {
		b := m.own(release, "ag_export")
		return files{"ag_export.ko": b, "ag_exporu.ko": replaced(m.t, b, "ag_export\x00", "ag_exporu\x00")}
	}, modules: []string{"ag_exporu", "ag_export"}, plain: "symbol-duplicate", plus: "symbol-duplicate"},
}

// signatures are rows about who signed it.
var signatures = []row{
	{name: "signature stripped", make: dummy(func(_ *material, b []byte) []byte { return stripped(b) }),
		plain: "ok", enforced: "unsigned", locked: "lockdown", plus: "ok"},
	{name: "signed by a key that is not enrolled", make: dummy(func(m *material, b []byte) []byte { return m.signer.sign(stripped(b)) }),
		plain: "ok", enforced: "key-not-enrolled", locked: "lockdown", plus: "ok"},
	{name: "signed by the previous build's key", make: func(m *material, _ string) files { return files{"dummy.ko": m.debian(m.previous, "dummy")} },
		plain: asJudged, enforced: "key-not-enrolled", locked: "lockdown", plus: asJudged},
	{name: "signature cut off in its middle", make: dummy(func(_ *material, b []byte) []byte { return b[:len(b)-100] }),
		plain: "ok", enforced: "unsigned", locked: "lockdown", plus: "ok"},
	{name: "signature longer than the file", make: dummy(func(_ *material, b []byte) []byte { return signatureTooLong(b) }),
		plain: "signature-damaged", enforced: "signature-damaged", locked: "signature-damaged", plus: "signature-damaged"},
	{name: "signature no PKCS#7", make: dummy(func(_ *material, b []byte) []byte { return signatureNoPKCS7(b) }),
		plain: "signature-damaged", enforced: "signature-damaged", locked: "signature-damaged", plus: "signature-damaged"},
	{name: "signature of another kind", make: dummy(func(_ *material, b []byte) []byte { return signatureOtherKind(b) }),
		plain: "ok", enforced: "signature-crypto", locked: "lockdown", plus: "ok"},
	{name: "one bit of the signature flipped", make: dummy(func(_ *material, b []byte) []byte { return signatureFlipped(b) }),
		plain: "signature-damaged", enforced: "signature-damaged", locked: "signature-damaged", plus: "signature-damaged"},
	{name: "content changed after signing", make: dummy(func(m *material, b []byte) []byte { return contentFlipped(m.t, b) }),
		plain: "signature-damaged", enforced: "signature-damaged", locked: "signature-damaged", plus: "signature-damaged"},
	{name: "content changed after signing by an unknown key", make: dummy(func(m *material, b []byte) []byte {
		return contentFlipped(m.t, m.signer.sign(stripped(b)))
	}), plain: "ok", enforced: "key-not-enrolled", locked: "lockdown", plus: "ok"},
}

// damaged are rows about files that are no modules.
var damaged = []row{
	{name: "cut short", make: dummy(func(_ *material, b []byte) []byte { return b[:len(b)/2] }), plain: "not-a-module", enforced: "not-a-module", plus: "not-a-module"},
	{name: "text file", make: dummy(func(*material, []byte) []byte { return bytes.Repeat([]byte("no module\n"), 100) }), plain: "not-a-module", plus: "not-a-module"},
	{name: "empty file", make: dummy(func(*material, []byte) []byte { return nil }), plain: "not-a-module", plus: "not-a-module"},
	{name: "packed stream cut short", make: packedDummy("dummy.ko.xz", func(m *material, b []byte) []byte {
		b = xzPacked(m.t, b, 1)
		return b[:len(b)/2]
	}), plain: "not-a-module", plus: "not-a-module"},
}

// packed are rows about compression. The kernel is also asked to unpack the
// file itself, and the finding "compression" must say whether it can.
var packed = []row{
	{name: "xz with CRC32", make: packedDummy("dummy.ko.xz", func(m *material, b []byte) []byte { return xzPacked(m.t, b, 1) }), plain: "ok", plus: "ok"},
	{name: "xz with CRC64", make: packedDummy("dummy.ko.xz", func(m *material, b []byte) []byte { return xzPacked(m.t, b, 4) }), plain: "ok", plus: "ok"},
	{name: "gzip", make: packedDummy("dummy.ko.gz", func(m *material, b []byte) []byte { return gzPacked(m.t, b) }), plain: "ok", plus: "ok"},
	{name: "zstd", make: packedDummy("dummy.ko.zst", func(m *material, b []byte) []byte { return zstPacked(m.t, b) }), plain: "ok", enforced: "ok", plus: "ok"},
}

// needs are rows about parameters and firmware.
var needs = []row{
	{name: "parameters of every type", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"count=-7", "loud=Y", `text="two words, and; more"`, "list=1,0x20,3"}}, plain: "ok", plus: "ok"},
	{name: "a word where a number belongs", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"count=many"}}, plain: "parameter-invalid", plus: "parameter-invalid"},
	{name: "a number too large for its type", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"list=1,65536"}}, plain: "parameter-invalid", plus: "parameter-invalid"},
	{name: "a word that is no yes or no", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"loud=perhaps"}}, plain: "parameter-invalid", plus: "parameter-invalid"},
	{name: "a negative number where none can be", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"list=-1"}}, plain: "parameter-invalid", plus: "parameter-invalid"},
	{name: "a switch without a value", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"loud"}}, plain: "ok", plus: "ok"},
	{name: "a number without a value", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"count"}}, plain: "parameter-invalid", plus: "parameter-invalid"},
	{name: "parameter that the module lacks", make: own("ag_params"), modules: []string{"ag_params"},
		parameters: map[string][]string{"ag_params": {"cuont=2"}}, plain: "parameter-unknown", plus: "parameter-unknown",
		why: "the kernel loads it and ignores the parameter with a line in its log; what was asked for would not hold"},
	{name: "firmware in the image", make: func(m *material, release string) files {
		f := own("ag_firmware")(m, release)
		f["firmware/agreement/blob.bin"] = []byte("firmware")
		return f
	}, modules: []string{"ag_firmware"}, plain: "ok", plus: "ok"},
	{name: "firmware missing", make: own("ag_firmware"), modules: []string{"ag_firmware"}, plain: "unsure:firmware-missing", plus: "unsure:firmware-missing",
		why: "only the driver's code knows whether it can do without; this one cannot", kernel: "ENOENT"},
}

// hosts are rows about what stands in the way on the host itself: the words of
// blacklists, and what is compiled in.
var hosts = []row{
	{name: "on the kernel's blacklist", make: debians("ifb"), modules: []string{"ifb"}, plain: "blacklisted", plus: "blacklisted"},
	{name: "on modprobe's blacklist, command line", make: debians("nlmon"), modules: []string{"nlmon"}, modprobe: true, plain: "ok", plus: "ok"},
	{name: "on modprobe's blacklist, file", make: debians("veth"), modules: []string{"veth"}, modprobe: true, plain: "ok", plus: "ok"},
	{name: "a built-in's name", make: named("mousedev"), modules: []string{"mousedev"}, plain: "builtin", plus: "builtin"},
	{name: "a built-in's name that the kernel does not watch", make: named("pps_core"), modules: []string{"pps_core"}, plain: "builtin", plus: "builtin",
		why: "the kernel refuses a name only when it stands in /sys/module, and built-ins without parameters do not; the built-in code stays all the same, and nothing is replaced"},
}

// blacklistWords and blacklistFile are what these rows find on the machine.
const blacklistWords = "module_blacklist=ifb modprobe.blacklist=nlmon"

var blacklistFile = map[string]string{"/etc/modprobe.d/agreement.conf": "blacklist veth\n"}

// debians makes a row of a module of the kernel itself.
func debians(name string) func(*material, string) files {
	return func(m *material, release string) files {
		return files{name + ".ko": m.debian(m.kernel(release), name)}
	}
}

// named makes a row of a module by another name.
func named(name string) func(*material, string) files {
	return func(m *material, release string) files {
		padded := name + strings.Repeat("\x00", len("ag_params\x00")-len(name))
		return files{name + ".ko": replaced(m.t, m.own(release, "ag_params"), "ag_params\x00", padded)}
	}
}

// rights are rows about who asks. They change the machine for the rest of the
// boot, so they come last and in this order.
var rights = []row{
	{name: "CAP_SYS_MODULE dropped", make: own("ag_params"), modules: []string{"ag_params"}, as: agreement.NoCapability,
		plain: "no-capability", plus: "no-capability"},
	{name: "SELinux enforcing", make: own("ag_params"), modules: []string{"ag_params"}, enforce: true, plain: "ok", plus: "ok"},
	{name: "SELinux enforcing, packed", make: packedDummy("dummy.ko.xz", func(m *material, b []byte) []byte { return xzPacked(m.t, b, 1) }), plain: "ok", plus: "ok"},
	{name: "SELinux enforcing, a domain that may load nothing", make: own("ag_params"), modules: []string{"ag_params"}, as: agreement.Confined,
		plain: "selinux-denied", plus: "selinux-denied"},
	{name: "module loading switched off", make: dummy(func(_ *material, b []byte) []byte { return b }), disable: true,
		plain: "modules-disabled", plus: "modules-disabled"},
}

// elsewhere are the modules that are taken from every kernel for every kernel.
// They have no firmware and need no device to start.
var elsewhere = []string{"dummy", "bonding", "xfs", "nvme", "igb", "ixgbe", "e1000e", "8139too", "mlx4_core", "megaraid_sas", "mpt3sas", "bochs", "usb_storage"}

// cloudHas are those that Debian's cloud kernel has.
var cloudHas = []string{"dummy", "bonding", "xfs"}

// foreign are rows of modules as Debian built them, of each kernel.
func foreign(m *material) []row {
	var rows []row
	for _, k := range []struct {
		kernel      debian.Kernel
		names       []string
		plain, plus string
	}{
		{m.stock, elsewhere, "ok", asJudged},
		{m.older, elsewhere, asJudged, asJudged},
		{m.oldest, elsewhere, asJudged, asJudged},
		{m.cloud, cloudHas, asJudged, asJudged},
		{m.realTime, elsewhere, asJudged, asJudged},
		{m.plus, elsewhere, asJudged, "ok"},
	} {
		for _, name := range k.names {
			rows = append(rows, row{
				name: name + " of " + k.kernel.Release, modules: []string{name}, plain: k.plain, plus: k.plus,
				make: func(m *material, _ string) files { return files{name + ".ko": m.debian(k.kernel, name)} },
			})
		}
	}
	return rows
}
