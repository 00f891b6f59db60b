package images_test

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	"fitout/testdata/images"
	"fitout/testdata/vm/debian"
)

func stock(t *testing.T) debian.Kernel {
	k, err := debian.Newest(debian.Stock)
	require.NoError(t, err)
	return k
}

// names lists the files of an image.
func names(t *testing.T, img v1.Image) []string {
	r := mutate.Extract(img)
	defer r.Close()
	var out []string
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return out
		}
		require.NoError(t, err)
		if h.Typeflag != tar.TypeDir {
			out = append(out, h.Name)
		}
	}
}

func TestImageHoldsModulesTablesAndLicence(t *testing.T) {
	k := stock(t)
	rel, err := k.Module("e1000e")
	require.NoError(t, err)
	for _, dir := range []string{images.KMM, images.Plain, images.UsrLib} {
		img, err := images.Build(images.Spec{Dir: dir, Kernels: []debian.Kernel{k}, Modules: []string{"e1000e"}})
		require.NoError(t, err)
		got := names(t, img)
		require.Contains(t, got, dir+"/"+k.Release+"/"+rel)
		require.Contains(t, got, dir+"/"+k.Release+"/modules.alias")
		require.Contains(t, got, "licenses/LICENSE")
	}
}

func TestImageIsTheSameEachTimeAndInEachForm(t *testing.T) {
	spec := images.Spec{Kernels: []debian.Kernel{stock(t)}, Modules: []string{"e1000e", "dummy"}}
	img, err := images.Build(spec)
	require.NoError(t, err)
	want, err := img.Digest()
	require.NoError(t, err)
	again, err := images.Build(spec)
	require.NoError(t, err)
	got, err := again.Digest()
	require.NoError(t, err)
	require.Equal(t, want, got)

	dir := filepath.Join(t.TempDir(), "layout")
	require.NoError(t, images.WriteLayout(img, dir, "one"))
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	require.Equal(t, want, manifest.Manifests[0].Digest)

	archive := filepath.Join(t.TempDir(), "image.tar")
	require.NoError(t, images.WriteDockerArchive(img, archive, "example.com/driver:one"))
	read, err := tarball.ImageFromPath(archive, nil)
	require.NoError(t, err)
	require.ElementsMatch(t, names(t, img), names(t, read))

	oci := filepath.Join(t.TempDir(), "oci.tar")
	require.NoError(t, images.WriteOCIArchive(img, oci, "one"))
	data, err := os.ReadFile(oci)
	require.NoError(t, err)
	require.True(t, bytes.Contains(data, []byte("oci-layout")))
}

func TestDamageKeepsLengthAndUnsignCuts(t *testing.T) {
	k := stock(t)
	rel, err := k.Module("dummy")
	require.NoError(t, err)
	module, err := os.ReadFile(filepath.Join(k.Modules(), rel))
	require.NoError(t, err)
	damaged, err := images.Damage(module)
	require.NoError(t, err)
	require.Len(t, damaged, len(module))
	require.NotEqual(t, module, damaged)
	bare, err := images.Unsign(module)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(module, bare))
	require.NotContains(t, string(bare), "~Module signature appended~")
	changed, err := images.ChangeCRC(module, "module_layout")
	require.NoError(t, err)
	require.Len(t, changed, len(bare))
	_, err = images.ChangeCRC(module, "no_such_symbol")
	require.ErrorContains(t, err, "does not import no_such_symbol")
}

func TestRegistriesAskForThePassword(t *testing.T) {
	img, err := images.Build(images.Spec{Kernels: []debian.Kernel{stock(t)}, Modules: []string{"dummy"}})
	require.NoError(t, err)
	for name, serve := range map[string]func() (*images.Registry, error){
		"in memory": images.Serve,
		"debian":    func() (*images.Registry, error) { return images.ServeDebian(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			r, err := serve()
			require.NoError(t, err)
			defer r.Close()
			require.NoError(t, r.Push(img, "drivers/dummy:1"))

			roots := x509.NewCertPool()
			require.True(t, roots.AppendCertsFromPEM([]byte(r.CA)))
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "registry.local"}}}
			get := func(user string) int {
				req, err := http.NewRequest("GET", "https://"+r.Addr+"/v2/drivers/dummy/manifests/1", nil)
				require.NoError(t, err)
				req.Header.Set("Accept", "application/vnd.oci.image.manifest.v1+json")
				if user != "" {
					req.SetBasicAuth(user, images.Password)
				}
				resp, err := client.Do(req)
				require.NoError(t, err)
				resp.Body.Close()
				return resp.StatusCode
			}
			require.Equal(t, http.StatusUnauthorized, get(""))
			require.Equal(t, http.StatusUnauthorized, get("nobody"))
			require.Equal(t, http.StatusOK, get(images.Username))
		})
	}
}
