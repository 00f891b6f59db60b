package catalog

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kmmModule is the part of a KMM Module (kmm.sigs.x-k8s.io/v1beta1) that fitout
// has a use for; what else there is is named in a warning.
type kmmModule struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		ModuleLoader struct {
			Container kmmContainer `yaml:"container"`
		} `yaml:"moduleLoader"`
	} `yaml:"spec"`
}

type kmmContainer struct {
	ContainerImage        string       `yaml:"containerImage"`
	InTreeModuleToRemove  string       `yaml:"inTreeModuleToRemove"`
	InTreeModulesToRemove []string     `yaml:"inTreeModulesToRemove"`
	KernelMappings        []kmmMapping `yaml:"kernelMappings"`
	Modprobe              kmmModprobe  `yaml:"modprobe"`
}

type kmmMapping struct {
	Literal               string   `yaml:"literal"`
	Regexp                string   `yaml:"regexp"`
	ContainerImage        string   `yaml:"containerImage"`
	InTreeModuleToRemove  string   `yaml:"inTreeModuleToRemove"`
	InTreeModulesToRemove []string `yaml:"inTreeModulesToRemove"`
}

type kmmModprobe struct {
	ModuleName          string   `yaml:"moduleName"`
	Parameters          []string `yaml:"parameters"`
	DirName             string   `yaml:"dirName"`
	FirmwarePath        string   `yaml:"firmwarePath"`
	ModulesLoadingOrder []string `yaml:"modulesLoadingOrder"`
	RawArgs             *struct {
		Load []string `yaml:"load"`
	} `yaml:"rawArgs"`
}

// kmmKnown are the keys read above, by their path; kmmSilent those that mean
// nothing on a single node and need no warning.
var (
	kmmKnown = []string{
		"apiVersion", "kind", "metadata", "spec", "spec.moduleLoader", "spec.moduleLoader.container",
		"spec.moduleLoader.container.containerImage", "spec.moduleLoader.container.inTreeModuleToRemove",
		"spec.moduleLoader.container.inTreeModulesToRemove", "spec.moduleLoader.container.kernelMappings",
		"spec.moduleLoader.container.modprobe",
	}
	kmmInMapping  = []string{"literal", "regexp", "containerImage", "inTreeModuleToRemove", "inTreeModulesToRemove"}
	kmmInModprobe = []string{"moduleName", "parameters", "dirName", "firmwarePath", "modulesLoadingOrder", "rawArgs"}
	kmmSilent     = []string{"spec.selector", "spec.moduleLoader.serviceAccountName", "spec.moduleLoader.container.imagePullPolicy", "spec.tolerations"}
)

// ImportKMM makes an entry of a KMM Module. The devices are not in a Module (KMM
// selects nodes by labels), so the entry has no match: the aliases of the
// image's own modules decide. Warnings name what was left out. The error says
// why there is nothing to import.
func ImportKMM(data []byte) (*Driver, []string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, nil, fmt.Errorf("reading the KMM Module: %w", err)
	}
	var m kmmModule
	if err := doc.Decode(&m); err != nil {
		return nil, nil, fmt.Errorf("reading the KMM Module: %w", err)
	}
	if m.Kind != "Module" || !strings.HasPrefix(m.APIVersion, "kmm.sigs.x-k8s.io/") {
		return nil, nil, fmt.Errorf("this is no KMM Module (kmm.sigs.x-k8s.io): apiVersion %q, kind %q", m.APIVersion, m.Kind)
	}
	c := m.Spec.ModuleLoader.Container
	if len(c.KernelMappings) == 0 {
		return nil, nil, fmt.Errorf("the KMM Module %s has no kernelMappings under spec.moduleLoader.container", m.Metadata.Name)
	}
	if c.Modprobe.RawArgs != nil || c.Modprobe.ModuleName == "" {
		return nil, nil, fmt.Errorf("the KMM Module %s loads by rawArgs, which say nothing about modules: write the entry by hand", m.Metadata.Name)
	}
	warnings := kmmLeftOut(doc.Content[0], "", nil)
	d := &Driver{Name: kmmName(m.Metadata.Name), Modules: c.Modprobe.ModulesLoadingOrder, Firmware: c.Modprobe.FirmwarePath, Unverified: true}
	if len(d.Modules) == 0 {
		d.Modules = []string{c.Modprobe.ModuleName}
	}
	d.Replaces = removed(c.InTreeModuleToRemove, c.InTreeModulesToRemove)
	if c.Modprobe.DirName != "" && c.Modprobe.DirName != "/opt" {
		d.DirName = c.Modprobe.DirName
	}
	if len(c.Modprobe.Parameters) > 0 {
		d.Parameters = map[string][]string{c.Modprobe.ModuleName: c.Modprobe.Parameters}
	}
	for i, km := range c.KernelMappings {
		reference := km.ContainerImage
		if reference == "" {
			reference = c.ContainerImage
		}
		reference = m.substitute(reference)
		if reference == "" {
			return nil, nil, fmt.Errorf("the KMM Module %s: kernelMappings[%d] has no containerImage", m.Metadata.Name, i)
		}
		if own := removed(km.InTreeModuleToRemove, km.InTreeModulesToRemove); len(own) > 0 && !slices.Equal(own, d.Replaces) {
			warnings = append(warnings, fmt.Sprintf("kernelMappings[%d] removes other in-tree modules (%s): an entry has one list for all its images", i, strings.Join(own, ", ")))
		}
		d.Images = append(d.Images, Mapping{Kernel: km.Regexp, Literal: km.Literal, Reference: reference})
	}
	return d, warnings, nil
}

// substitute puts in the two variables of KMM that only a Module has.
func (m *kmmModule) substitute(reference string) string {
	return strings.NewReplacer("${MOD_NAME}", m.Metadata.Name, "$MOD_NAMESPACE", m.Metadata.Namespace, "${MOD_NAMESPACE}", m.Metadata.Namespace,
		"$MOD_NAME", m.Metadata.Name).Replace(reference)
}

func removed(one string, more []string) []string {
	if one != "" && !slices.Contains(more, one) {
		return append([]string{one}, more...)
	}
	return more
}

func kmmName(name string) string {
	if name = strings.ToLower(name); ValidName(name) {
		return name
	}
	return "imported"
}

// kmmLeftOut names every key that has a value and no meaning here.
func kmmLeftOut(n *yaml.Node, path string, found []string) []string {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		at := strings.TrimPrefix(path+"."+key, ".")
		switch {
		case at == "metadata" || slices.Contains(kmmSilent, at):
		case strings.HasSuffix(path, ".kernelMappings") && slices.Contains(kmmInMapping, key):
		case strings.HasSuffix(path, ".modprobe") && slices.Contains(kmmInModprobe, key):
		case !slices.Contains(kmmKnown, at):
			found = append(found, fmt.Sprintf("%s (line %d) has no counterpart here and was left out", at, n.Content[i].Line))
		case value.Kind == yaml.SequenceNode:
			for _, item := range value.Content {
				found = kmmLeftOut(item, at, found)
			}
		default:
			found = kmmLeftOut(value, at, found)
		}
	}
	return found
}
