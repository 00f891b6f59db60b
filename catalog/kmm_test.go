package catalog

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestIntelsPublishedModuleBecomesAnEntry(t *testing.T) {
	data, err := os.ReadFile("testdata/intel-dgpu.yaml")
	require.NoError(t, err)
	d, warnings, err := ImportKMM(data)
	require.NoError(t, err)
	require.Empty(t, warnings)

	out, err := yaml.Marshal(File{APIVersion: APIVersion, Kind: Kind, Date: "2026-11-30", Drivers: []Driver{*d}})
	require.NoError(t, err)
	golden, err := os.ReadFile("testdata/intel-dgpu.golden.yaml")
	require.NoError(t, err)
	require.Equal(t, string(golden), string(out))

	_, err = Read("imported", out)
	require.NoError(t, err)
	ref, _, err := d.Resolve("5.14.0-284.54.1.el9_2.x86_64", Vars{})
	require.NoError(t, err)
	require.Equal(t, "registry.connect.redhat.com/intel/intel-data-center-gpu-driver-container:3.0.0-5.14.0-284.54.1.el9_2.x86_64", ref)
}

const kmmExample = `apiVersion: kmm.sigs.x-k8s.io/v1beta1
kind: Module
metadata: {name: My_Module, namespace: ns}
spec:
  devicePlugin: {container: {image: x}}
  moduleLoader:
    container:
      version: "1"
      containerImage: r.example/${MOD_NAMESPACE}/$MOD_NAME:${KERNEL_FULL_VERSION}
      registryTLS: {insecure: true}
      inTreeModuleToRemove: ice
      modprobe:
        moduleName: ice
        dirName: /srv
        parameters: [a=1, b=2]
        args: {load: [-v]}
      kernelMappings:
      - literal: 6.1.0-57-amd64
        build: {dockerfileConfigMap: {name: x}}
      - regexp: '^6\.12\.'
        containerImage: r.example/other:1
        inTreeModulesToRemove: [ice, irdma]
`

func TestWhatAnImportLeavesOutIsNamed(t *testing.T) {
	d, warnings, err := ImportKMM([]byte(kmmExample))
	require.NoError(t, err)
	require.Equal(t, &Driver{
		Name: "my_module", Modules: []string{"ice"}, Replaces: []string{"ice"}, DirName: "/srv", Unverified: true,
		Parameters: map[string][]string{"ice": {"a=1", "b=2"}},
		Images: []Mapping{
			{Literal: "6.1.0-57-amd64", Reference: "r.example/ns/My_Module:${KERNEL_FULL_VERSION}"},
			{Kernel: `^6\.12\.`, Reference: "r.example/other:1"},
		},
	}, d)
	require.Equal(t, []string{
		"spec.devicePlugin (line 5) has no counterpart here and was left out",
		"spec.moduleLoader.container.version (line 8) has no counterpart here and was left out",
		"spec.moduleLoader.container.registryTLS (line 10) has no counterpart here and was left out",
		"spec.moduleLoader.container.modprobe.args (line 16) has no counterpart here and was left out",
		"spec.moduleLoader.container.kernelMappings.build (line 19) has no counterpart here and was left out",
		"kernelMappings[1] removes other in-tree modules (ice, irdma): an entry has one list for all its images",
	}, warnings)
}

func TestWhatIsNoUsableModuleIsNotImported(t *testing.T) {
	const start = "apiVersion: kmm.sigs.x-k8s.io/v1beta1\nkind: Module\nspec: {moduleLoader: {container: "
	for file, want := range map[string]string{
		"a: [":               "reading the KMM Module",
		"":                   "this is no KMM Module",
		"kind: Deployment\n": "this is no KMM Module",
		start + "{}}}\n":     "has no kernelMappings",
		start + "{modprobe: {rawArgs: {load: [x]}}, kernelMappings: [{regexp: x, containerImage: y}]}}}\n": "loads by rawArgs",
		start + "{modprobe: {moduleName: x}, kernelMappings: [{regexp: x}]}}}\n":                           "kernelMappings[0] has no containerImage",
		start + "{kernelMappings: 7}}}\n": "reading the KMM Module",
	} {
		_, _, err := ImportKMM([]byte(file))
		require.ErrorContains(t, err, want, file)
	}
}
