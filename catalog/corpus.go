package catalog

// releases are kernel releases as uname -r shows them, from machines and
// packages in the field; patterns are tried on them.
var releases = []string{
	// Debian
	"5.10.0-28-amd64", "6.1.0-57-amd64", "6.1.0-54-cloud-amd64", "6.1.0-57-rt-amd64", "6.1.0-57-arm64",
	"6.12.117+deb12-amd64", "6.12.48+deb13-amd64", "6.12.48+deb13-cloud-arm64",
	// Ubuntu and its clouds
	"5.15.0-118-generic", "6.8.0-45-lowlatency", "6.8.0-1029-gke", "5.15.0-1061-azure", "6.8.0-1016-aws", "6.8.0-45-generic-64k",
	"6.14.0-29-generic", "5.15.0-1042-gke", "6.8.0-2009-raspi",
	// RHEL and its rebuilds, with flavours behind the architecture
	"4.18.0-477.21.1.el8_8.x86_64", "5.14.0-284.54.1.el9_2.aarch64", "5.14.0-284.54.1.el9_2.aarch64+64k", "5.14.0-427.18.1.el9_4.x86_64+rt",
	"5.14.0-570.122.1.el9_6.x86_64", "5.14.0-531.el9.x86_64", "6.12.0-55.9.1.el10_0.x86_64", "6.12.0-124.el10.aarch64",
	"5.4.17-2136.315.5.el8uek.x86_64", "5.4.124-1.el7.elrepo.x86_64",
	// Fedora and its CoreOS
	"6.0.15-300.fc37.x86_64", "6.8.9-300.fc40.x86_64", "6.14.9-300.fc42.x86_64", "6.17.4-200.fc42.aarch64", "6.17.7-300.fc43.x86_64", "7.0.4-200.fc44.x86_64",
	// SUSE: SLE, SL Micro, Leap, Tumbleweed
	"5.14.21-150400.24.33-default", "5.14.21-150500.55.83-default", "6.4.0-150600.23.47-default", "6.4.0-150700.51-default",
	"6.4.0-150700.53.6-default", "6.4.0-150700.53.40-64kb", "6.4.0-150700.20.6-azure", "6.12.0-160000.5-default", "6.12.0-160000.29-default",
	"6.12.0-160000.29-64kb", "6.4.0-36-default", "6.17.5-1-default",
	// others
	"5.10.133+", "5.10.60-v7l_charlie1+", "6.6.58-flatcar", "6.12.33-production+truenas", "6.18.2-talos", "6.12.10-arch1-1", "5.10.230-223.885.amzn2.x86_64",
	"6.1.112-122.189.amzn2023.x86_64", "5.15.96-0-virt", "6.6.31-0-lts", "6.17.11",
}
